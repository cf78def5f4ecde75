# SPDX-License-Identifier: Apache-2.0
"""Constant, reflection and replication padding, for targets that lack some of these."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule, RuleTable
from delegatec.edge.legalize.value import Scalar, Value, cat, table, value_of

aten = torch.ops.aten

INNERMOST: Final = 3
"""Dimensions that one call pads at most, which are the last ones."""


def cropped(x: Value, dim: int, before: int, after: int) -> Value:
    """Returns a dimension without the elements that negative amounts of padding remove."""
    return x.slice(dim, max(-before, 0), x.shape[dim] - max(-after, 0))


def padded(x: Value, dim: int, before: int, after: int, value: Scalar = 0) -> Value:
    """Returns a dimension padded by a scalar; a negative amount removes elements."""
    x = cropped(x, dim, before, after)
    amounts = (max(before, 0), max(after, 0))
    if amounts == (0, 0):
        return x
    behind = x.rank - 1 - dim
    if behind < INNERMOST:
        return x.pad((*(0,) * (2 * behind), *amounts), value)
    flat = x.view(*x.shape[: dim + 1], math.prod(x.shape[dim + 1 :])).pad((0, 0, *amounts), value)
    return flat.view(*x.shape[:dim], flat.shape[dim], *x.shape[dim + 1 :])


def without_negative(builder: Builder, node: Node) -> tuple[Value, list[tuple[int, int]]]:
    """Returns the operand cropped by the negative amounts, and the other amounts, last dimension first."""
    bound = bind(node)
    x, pairs = value_of(builder, bound["self"]), list(zip(bound["pad"][::2], bound["pad"][1::2], strict=True))
    for position, pair in enumerate(pairs):
        x = cropped(x, x.rank - 1 - position, *pair)
    return x, [(max(before, 0), max(after, 0)) for before, after in pairs]


def _pad_bools(b: Builder, node: Node) -> Node | None:
    """Pads bools with 0 or 1, as delegates treat them as floats."""
    x, pad, value = bind(node).values()
    if dtype_of(node) != torch.bool or value in (0, 1):
        return None
    return b.call(aten.constant_pad_nd.default, x, pad, 1, val=node.meta["val"])


def _constant(builder: Builder, node: Node) -> Node:
    """Crops by slices, pads the innermost dimensions at once and each of the others alone; bools as int32."""
    bound = bind(node)
    value = bound["value"] or 0
    if dtype_of(node) == torch.bool:
        x = value_of(builder, bound["self"], torch.int32)
        return x.pad(bound["pad"], int(bool(value))).to(torch.bool).node
    x, pairs = without_negative(builder, node)
    inner = pairs[:INNERMOST]
    while inner and inner[-1] == (0, 0):
        inner.pop()
    if inner:
        x = x.pad([amount for pair in inner for amount in pair], value)
    for position, (before, after) in enumerate(pairs[INNERMOST:], INNERMOST):
        x = padded(x, x.rank - 1 - position, before, after, value)
    return x.node


Extend = Callable[[Value, int, int, int], Value]
"""Pads a dimension of a value by amounts before and after it, at least one of which is positive."""


def _by_dimension(extend: Extend) -> Rule:
    """Returns a rule for padding with elements of the operand."""

    def rule(builder: Builder, node: Node) -> Node:
        bound = bind(node)
        x, amounts = value_of(builder, bound["self"]), bound["padding"]
        for offset, pair in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            dim = x.rank - 1 - offset
            x = extend(x, dim, *pair) if max(pair) > 0 else cropped(x, dim, *pair)
        return x.node

    return rule


def _gathered(index: Callable[[torch.Tensor, int], torch.Tensor]) -> Extend:
    """Returns a gather at constant positions; `index`: positions, size -> those of elements."""

    def extend(x: Value, dim: int, before: int, after: int) -> Value:
        size = x.shape[dim]
        positions = torch.arange(-before, size + after, dtype=torch.int32)
        return x.index_select(dim, table(x.builder, index(positions, size)))

    return extend


def _mirrored(positions: torch.Tensor, size: int) -> torch.Tensor:
    return (size - 1) - (size - 1 - positions.abs()).abs()


def _outermost(positions: torch.Tensor, size: int) -> torch.Tensor:
    return positions.clamp(0, size - 1)


def _concatenated(border: Callable[[Value, int, int, bool], Value]) -> Extend:
    """Returns a concatenation; `border`: value, dim, amount, whether it follows -> the elements to add."""

    def extend(x: Value, dim: int, before: int, after: int) -> Value:
        parts = [cropped(x, dim, before, after)]
        if before > 0:
            parts.insert(0, border(x, dim, before, False))
        if after > 0:
            parts.append(border(x, dim, after, True))
        return cat(parts, dim)

    return extend


def _reversed(x: Value, dim: int, amount: int, follows: bool) -> Value:
    start = x.shape[dim] - 1 - amount if follows else 1
    part = x.slice(dim, start, start + amount)
    return Value(x.builder, x.builder.call(aten.flip.default, part.node, [dim]))


def _repeated(x: Value, dim: int, amount: int, follows: bool) -> Value:
    start = x.shape[dim] - 1 if follows else 0
    sizes = [amount if each == dim else size for each, size in enumerate(x.shape)]
    return x.slice(dim, start, start + 1).expand(*sizes)


_REFLECTION: Final = (aten.reflection_pad1d, aten.reflection_pad2d, aten.reflection_pad3d)
_REPLICATION: Final = (aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d)


def _with_elements(reflect: Extend, replicate: Extend, *notes: str) -> tuple[Rewrite, ...]:
    return tuple(
        Rewrite(packet.default, _by_dimension(extend), computes=False, note=note)
        for packets, extend, note in zip(
            (_REFLECTION, _REPLICATION), (reflect, replicate), notes, strict=True
        )
        for packet in packets
    )


RULES: RuleTable = {
    aten.constant_pad_nd.default: _pad_bools,
}

REWRITES: Final = (
    Rewrite(
        aten.constant_pad_nd.default,
        _constant,
        note="negative amounts as slices; the last three dimensions at once, each of the others alone; bool "
        "as int32",
        computes=False,
    ),
    *_with_elements(
        *(_gathered(_mirrored), _gathered(_outermost)),
        *["one gather per dimension, at constant positions"] * 2,
    ),
)

BY_SLICES: Final = _with_elements(
    *(_concatenated(_reversed), _concatenated(_repeated)),
    *("concatenates reversed slices", "concatenates repeated slices"),
)
"""Without a gather, whose index takes memory."""
