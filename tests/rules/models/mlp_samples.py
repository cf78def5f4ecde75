# SPDX-License-Identifier: Apache-2.0
"""Samples of the inputs of `mlp`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from sample_count import COUNT


def build() -> Iterator[torch.Tensor]:
    """Returns random samples from the seed."""
    for _ in range(COUNT):
        yield torch.randn(2, 8)
