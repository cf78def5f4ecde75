# SPDX-License-Identifier: Apache-2.0
"""Arguments of nodes, in the form that operations of the format want."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node


def shape_of(node: Node) -> tuple[int, ...]:
    """Sizes of a node's value, all static."""
    return tuple(node.meta["val"].shape)


def dtype_of(node: Node) -> torch.dtype:
    """dtype of a node's value."""
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype


def positive(dim: int, rank: int) -> int:
    """A dimension counted from the front."""
    return dim + rank if dim < 0 else dim


def promoted(operands: Sequence[Any]) -> torch.dtype:
    """The dtype that torch computes in for these operands, nodes and numbers."""
    values = [o.meta["val"] if isinstance(o, Node) else o for o in operands]
    result = values[0]
    if len(values) == 1:
        dtype: torch.dtype = result.dtype
        return dtype
    return torch.result_type(values[0], values[1])


def pair(values: Sequence[int] | int, default: Sequence[int] = ()) -> tuple[int, int]:
    """Two numbers, for height and width: a single one counts for both."""
    if isinstance(values, int):
        return values, values
    chosen = list(values) or list(default)
    return (chosen[0], chosen[0]) if len(chosen) == 1 else (chosen[0], chosen[1])
