# SPDX-License-Identifier: Apache-2.0
"""Positions along a dimension, which may vary with its size."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.symbols import is_dynamic, smallest

Size = int | torch.SymInt
_END: Final = 2**31 - 1


def selected(node: Node) -> Size:
    """Returns the index of a `select`, counted from the start."""
    bound = bind(node)
    return _from_start(_scalar_of(bound["index"]), bound["self"].meta["val"].shape[bound["dim"]])


def sliced(node: Node) -> tuple[Size, Size]:
    """Returns the ends of a slice, counted from the start and in range."""
    bound = bind(node)
    size, step = bound["self"].meta["val"].shape[bound["dim"]], bound["step"]
    count = node.meta["val"].shape[bound["dim"]]
    start, end = _scalar_of(bound["start"]), _scalar_of(bound["end"])
    if not is_dynamic((size, start, end)):
        # ATen's bounds may be None, negative or out of range.
        first, last, _ = slice(start, end).indices(size)
        return first, max(first, last)
    begin = _from_start(0 if start is None else start, size)
    if step == 1:
        return begin, begin + count
    is_open = end is None or (isinstance(end, int) and end >= _END)
    return begin, size if is_open else _from_start(end, size)


def never_negative(value: Size) -> bool:
    """Whether an integer is never negative, by the ranges of its sizes."""
    return smallest(value) >= 0


def _scalar_of(value: Any) -> Any:
    return value.meta["val"] if isinstance(value, Node) else value


def _from_start(index: Size, size: Size) -> Size:
    is_negative = index < 0 if isinstance(index, int) else smallest(-index) > 0
    return index + size if is_negative else index
