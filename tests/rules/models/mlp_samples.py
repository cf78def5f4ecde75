# SPDX-License-Identifier: Apache-2.0
"""Samples of the inputs of `mlp`."""

from __future__ import annotations

from collections.abc import Iterator

import torch


def build() -> Iterator[torch.Tensor]:
    """Returns random samples from the seed."""
    for _ in range(8):
        yield torch.randn(2, 8)
