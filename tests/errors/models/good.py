# SPDX-License-Identifier: Apache-2.0
"""A model without an error."""

import torch

import delegatec


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.linear(x))


def build():
    print("building")
    return delegatec.Model(Net(), (torch.ones(1, 4),))
