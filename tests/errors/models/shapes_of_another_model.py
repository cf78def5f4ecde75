# SPDX-License-Identifier: Apache-2.0
"""dynamic_shapes names an argument that forward does not have."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


def build():
    return delegatec.Model(
        Net(), (torch.ones(2, 5),), dynamic_shapes={"y": {0: torch.export.Dim("batch", max=8)}}
    )
