# SPDX-License-Identifier: Apache-2.0
"""forward takes two arguments, the example has one."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, left, right):
        return left + right


def build():
    return delegatec.Model(Net(), (torch.zeros(1),))
