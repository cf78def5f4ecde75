# SPDX-License-Identifier: Apache-2.0
"""The smallest model that has weights, and a library of its user."""

from __future__ import annotations

import torch

import delegatec
from tests.rules.models.activation import activation


class Mlp(torch.nn.Module):
    """Two layers: [batch, 8] to [batch, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 16)
        self.outer = torch.nn.Linear(16, 4)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Logits of a batch."""
        return self.outer(activation(self.inner(value)))


def build() -> delegatec.Model:
    """The network with random weights from the seed."""
    return delegatec.Model(Mlp().eval(), (torch.rand(2, 8),))
