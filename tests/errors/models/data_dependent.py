# SPDX-License-Identifier: Apache-2.0
"""Control flow that depends on a value."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x * 2
        return x


def build():
    return delegatec.Model(Net(), (torch.ones(3),))
