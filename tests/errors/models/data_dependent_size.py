# SPDX-License-Identifier: Apache-2.0
"""A Python number from a value of a tensor, which then decides."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x, count):
        steps = count.item()
        for _ in range(steps):
            x = x * 2
        return x


def build():
    return delegatec.Model(Net(), (torch.ones(3), torch.tensor(2)))
