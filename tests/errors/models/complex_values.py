# SPDX-License-Identifier: Apache-2.0
"""An operator that has no form on real and imaginary parts."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.svdvals(torch.view_as_complex(x).reshape(3, 1))


def build():
    return delegatec.Model(Net(), (torch.ones(3, 2),))
