# SPDX-License-Identifier: Apache-2.0
"""Two dynamic dimensions without a bound."""

import torch

import delegatec


class Net(torch.nn.Module):
    def forward(self, tokens, mask):
        return tokens * mask


def build():
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", min=2)
    inputs = (torch.ones(2, 5), torch.ones(2, 5))
    return delegatec.Model(Net(), inputs, dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}))
