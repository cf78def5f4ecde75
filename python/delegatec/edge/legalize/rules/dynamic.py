# SPDX-License-Identifier: Apache-2.0
"""Helpers for dynamic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.symbols import largest


def at_most(sizes: Sequence[Any], limit: int) -> bool:
    """Whether the product of sizes never exceeds `limit`."""
    product = 1
    for size in sizes:
        bound = largest(size)
        if bound is None:
            return False
        product *= bound
    return product <= limit


def padded(x: Tensor, dim: int, before: Any, after: Any, fill: Any = 0) -> Tensor:
    """Pads one dimension by `cat`: torch specializes the shape of constant_pad_nd."""
    parts = [x]
    for count, position in ((before, 0), (after, 2)):
        if not isinstance(count, int) or count:
            shape = [*x.shape[:dim], count, *x.shape[dim + 1 :]]
            parts.insert(position, torch.full(shape, fill, dtype=x.dtype))
    return torch.cat(parts, dim) if len(parts) > 1 else x
