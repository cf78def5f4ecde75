# SPDX-License-Identifier: Apache-2.0
"""Two weights beyond the range of float16."""

import torch

import delegatec


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.large = torch.nn.Parameter(torch.tensor([1.0, 1e6]))
        self.larger = torch.nn.Parameter(torch.tensor([-1e9, 1.0]))

    def forward(self, x):
        return x * self.large + self.larger


def build():
    return delegatec.Model(Net(), (torch.ones(3, 2),))
