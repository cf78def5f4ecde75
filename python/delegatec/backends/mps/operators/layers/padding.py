# SPDX-License-Identifier: Apache-2.0
"""Padding by a number, by a mirror image, or by the outermost elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder, Number
from delegatec.backends.mps.building.values import operand, table
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import exact_number
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import dtype_of

_AT_ONCE: Final = 3
"""Dimensions that one ConstantPadND pads at most, which are the last ones."""


def padded(x: Expression, dim: int, before: int, after: int, value: Number = 0) -> Expression:
    """A dimension padded by a number; a negative amount takes elements away."""
    x = x.slice(dim, max(-before, 0), x.shape[dim] - max(-after, 0))
    pads = (max(before, 0), max(after, 0))
    if pads == (0, 0):
        return x
    behind = len(x.shape) - 1 - dim
    if behind < _AT_ONCE:
        return x.pad((*(0,) * (2 * behind), *pads), value)
    flat = x.view(*x.shape[: dim + 1], math.prod(x.shape[dim + 1 :])).pad((0, 0, *pads), value)
    return flat.view(*x.shape[:dim], flat.shape[dim], *x.shape[dim + 1 :])


def _constant(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    # MPSGraph does not pad bool.
    x = operand(b, bound["self"], torch.int32 if dtype == torch.bool else dtype)
    value, amounts = bound["value"] or 0, bound["pad"]
    rank = len(x.shape)
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))  # of the last dimension first
    for position, (before, after) in enumerate(pairs):
        dim = rank - 1 - position
        x = x.slice(dim, max(-before, 0), x.shape[dim] - max(-after, 0))
    more = [(max(before, 0), max(after, 0)) for before, after in pairs]
    last = more[:_AT_ONCE]
    if any(pair != (0, 0) for pair in last):
        while last[-1] == (0, 0):
            last.pop()
        x = x.pad([amount for pair in last for amount in pair], value)
    for position, (before, after) in enumerate(more[_AT_ONCE:], _AT_ONCE):
        x = padded(x, rank - 1 - position, before, after, value)
    x.to(dtype).bind(node)


def _by_elements(place: Callable[[torch.Tensor, int], torch.Tensor]) -> Callable[[GraphBuilder, Node], None]:
    """Padding whose elements are some of the operand; `place` says which: positions, size -> indices."""

    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        x, amounts = operand(b, bound["self"]), bound["padding"]
        for position, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            dim = len(x.shape) - 1 - position
            size = x.shape[dim]
            if before <= 0 and after <= 0:
                x = x.slice(dim, -before, size + after)
            else:
                places = place(torch.arange(-before, size + after), size)
                x = x.index_select(dim, table(b, places))
        x.bind(node)

    return lower


def _mirrored(positions: torch.Tensor, size: int) -> torch.Tensor:
    return (size - 1) - (size - 1 - positions.abs()).abs()


def _outermost(positions: torch.Tensor, size: int) -> torch.Tensor:
    return positions.clamp(0, size - 1)


ROWS: Final = (
    OperatorRow(
        overload("constant_pad_nd"),
        _constant,
        (exact_number("value"),),
        computes=False,
        note="negative amounts are slices; of the last three dimensions by one operation, of others by one "
        "each; bool as int32",
    ),
    *(
        OperatorRow(
            overload(f"{name}_pad{count}d"),
            _by_elements(place),
            computes=False,
            note="a look-up for each dimension, at positions that are constants",
        )
        for name, place in (("reflection", _mirrored), ("replication", _outermost))
        for count in (1, 2, 3)
    ),
)
