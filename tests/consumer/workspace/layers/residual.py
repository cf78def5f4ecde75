# SPDX-License-Identifier: Apache-2.0
"""A library of the consumer's."""

from __future__ import annotations

import torch


class Residual(torch.nn.Module):
    """A layer whose input is added to its output: [batch, width] to the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """The layer's output."""
        return value + torch.relu(self.linear(value))
