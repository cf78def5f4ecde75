# SPDX-License-Identifier: Apache-2.0
"""Weights that were never loaded."""

import torch

import delegatec


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3, device="meta"))
        self.register_buffer("table", torch.eye(3).to_sparse())

    def forward(self, x):
        return x + 1


def build():
    return delegatec.Model(Net(), (torch.ones(3),))
