# SPDX-License-Identifier: Apache-2.0
"""An operator that the MPS backend does not support."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + torch.rand(3, 2)


def build():
    return delegatec.Model(Net(), (torch.ones(3, 2),))
