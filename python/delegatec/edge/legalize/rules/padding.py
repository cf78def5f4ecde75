# SPDX-License-Identifier: Apache-2.0
"""Padding by a number, by a mirror image, or by the outermost elements, for targets that lack some of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.value import Number, Value, table, value_of

aten = torch.ops.aten

INNERMOST: Final = 3
"""Dimensions that one call pads at most, which are the last ones."""


def cropped(x: Value, dim: int, before: int, after: int) -> Value:
    """Returns a dimension without the elements that negative amounts of padding remove."""
    return x.slice(dim, max(-before, 0), x.shape[dim] - max(-after, 0))


def padded(x: Value, dim: int, before: int, after: int, value: Number = 0) -> Value:
    """Returns a dimension padded by a number; a negative amount removes elements."""
    x = cropped(x, dim, before, after)
    amounts = (max(before, 0), max(after, 0))
    if amounts == (0, 0):
        return x
    behind = x.rank - 1 - dim
    if behind < INNERMOST:
        return x.pad((*(0,) * (2 * behind), *amounts), value)
    flat = x.view(*x.shape[: dim + 1], math.prod(x.shape[dim + 1 :])).pad((0, 0, *amounts), value)
    return flat.view(*x.shape[:dim], flat.shape[dim], *x.shape[dim + 1 :])


def _constant(builder: Builder, node: Node) -> Node:
    """Crops by slices, pads the innermost dimensions at once and each of the others alone; bools as int32."""
    bound = bind(node)
    x, value = value_of(builder, bound["self"]), bound["value"] or 0
    if x.dtype == torch.bool:
        return x.to(torch.int32).pad(bound["pad"], int(bool(value))).to(torch.bool).node
    pairs = list(zip(bound["pad"][::2], bound["pad"][1::2], strict=True))  # the last dimension first
    for position, pair in enumerate(pairs):
        x = cropped(x, x.rank - 1 - position, *pair)
    pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    inner = pairs[:INNERMOST]
    while inner and inner[-1] == (0, 0):
        inner.pop()
    if inner:
        x = x.pad([amount for pair in inner for amount in pair], value)
    for position, (before, after) in enumerate(pairs[INNERMOST:], INNERMOST):
        x = padded(x, x.rank - 1 - position, before, after, value)
    return x.node


def _by_elements(position: Callable[[torch.Tensor, int], torch.Tensor]) -> Rule:
    """Returns a rule for padding with elements of the operand; `position`: positions, size -> indices."""

    def rule(builder: Builder, node: Node) -> Node:
        bound = bind(node)
        x, amounts = value_of(builder, bound["self"]), bound["padding"]
        for number, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            dim = x.rank - 1 - number
            size = x.shape[dim]
            if before <= 0 and after <= 0:
                x = cropped(x, dim, before, after)
            else:
                positions = torch.arange(-before, size + after, dtype=torch.int32)
                x = x.index_select(dim, table(builder, position(positions, size)))
        return x.node

    return rule


def _mirrored(positions: torch.Tensor, size: int) -> torch.Tensor:
    return (size - 1) - (size - 1 - positions.abs()).abs()


def _outermost(positions: torch.Tensor, size: int) -> torch.Tensor:
    return positions.clamp(0, size - 1)


REWRITES: Final = (
    Rewrite(
        aten.constant_pad_nd.default,
        _constant,
        note="negative amounts as slices; the last three dimensions at once, each of the others alone; bool "
        "as int32",
        computes=False,
    ),
    *(
        Rewrite(
            target,
            _by_elements(position),
            note="one gather per dimension, at constant positions",
            computes=False,
        )
        for position, targets in (
            (_mirrored, (aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d)),
            (_outermost, (aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d)),
        )
        for target in (packet.default for packet in targets)
    ),
)
