# SPDX-License-Identifier: Apache-2.0
"""Complex numbers between real inputs and outputs."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.view_as_complex(x).real


def build():
    return delegatec.Model(Net(), (torch.ones(3, 2),))
