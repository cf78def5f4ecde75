# SPDX-License-Identifier: Apache-2.0
"""A library that a model imports by its path from the workspace's root."""

from __future__ import annotations

import torch


def activation(value: torch.Tensor) -> torch.Tensor:
    """The rectifier."""
    return torch.relu(value)
