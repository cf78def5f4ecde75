# SPDX-License-Identifier: Apache-2.0
"""forward has two parameters, the example has one argument."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, left, right):
        return left + right


def build():
    return delegatec.Model(Net(), (torch.zeros(1),))
