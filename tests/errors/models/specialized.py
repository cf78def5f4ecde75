# SPDX-License-Identifier: Apache-2.0
"""A dimension is called dynamic, and the module fixes it."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return x.view(2, 5) + 1


def build():
    return delegatec.Model(
        Net(), (torch.ones(2, 5),), dynamic_shapes=({0: torch.export.Dim("batch", max=8)},)
    )
