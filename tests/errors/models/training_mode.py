# SPDX-License-Identifier: Apache-2.0
"""Dropout in any mode of the module."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.1)


def build():
    return delegatec.Model(Net(), (torch.ones(3),))
