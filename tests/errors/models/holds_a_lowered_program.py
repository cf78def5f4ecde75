# SPDX-License-Identifier: Apache-2.0
"""A delegate in a model, which torch.export supports, but a .pt2 does not."""

import torch

import delegatec


class Around(torch.nn.Module):
    def __init__(self, lowered):
        super().__init__()
        self.lowered = lowered

    def forward(self, x):
        return self.lowered(x).cos()


class Sine(torch.nn.Module):
    def forward(self, x):
        return x.exp().sin()


def build():
    inputs = (torch.ones(2, 3),)
    program = delegatec.to_edge(torch.export.export(Sine(), inputs))
    return delegatec.Model(Around(delegatec.to_backend("MPSBackend", program)), inputs)
