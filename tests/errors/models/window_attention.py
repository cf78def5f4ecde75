# SPDX-License-Identifier: Apache-2.0
"""Attention to the last rows of a cache."""

import torch

import delegatec


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 1, 8, 4))
        self.register_buffer("values", torch.zeros(1, 1, 8, 4))

    def forward(self, x, start):
        positions = start + torch.arange(2)
        keys = self.keys.index_copy_(2, positions, x)
        values = self.values.index_copy_(2, positions, x * 2)
        ages = positions[:, None] - torch.arange(8)
        mask = (ages >= 0) & (ages < 3)
        return torch.nn.functional.scaled_dot_product_attention(x, keys, values, mask)


def build():
    return delegatec.Model(Net(), (torch.ones(1, 1, 2, 4), torch.tensor([0])))
