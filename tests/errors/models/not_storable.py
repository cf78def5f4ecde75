# SPDX-License-Identifier: Apache-2.0
"""An operator that torch exports and cannot store."""

import torch
from torch.nn.attention.flex_attention import flex_attention

import delegatec


class Net(torch.nn.Module):
    def forward(self, q):
        return flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: s + (i - j))


def build():
    return delegatec.Model(Net(), (torch.randn(1, 2, 16, 16),))
