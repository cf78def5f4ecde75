# SPDX-License-Identifier: Apache-2.0
"""Padding with elements of the operand, by slices that are reversed or repeated: a gather needs an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.padding import cropped
from delegatec.edge.legalize.value import Value, cat, value_of

aten = torch.ops.aten

Border = Callable[[Value, int, int, bool], Value]
"""Returns some elements that precede a dimension, or follow it."""


def _mirrored(x: Value, dim: int, amount: int, follows: bool) -> Value:
    size = x.shape[dim]
    start = size - 1 - amount if follows else 1
    part = x.slice(dim, start, start + amount)
    return Value(x.builder, x.builder.call(aten.flip.default, part.node, [dim]))


def _repeated(x: Value, dim: int, amount: int, follows: bool) -> Value:
    start = x.shape[dim] - 1 if follows else 0
    sizes = [amount if each == dim else size for each, size in enumerate(x.shape)]
    return x.slice(dim, start, start + 1).expand(*sizes)


def _padded(border: Border) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        bound = bind(node)
        x, amounts = value_of(builder, bound["self"]), bound["padding"]
        for number, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            dim = x.rank - 1 - number
            whole = x
            parts = [cropped(x, dim, before, after)]
            if before > 0:
                parts.insert(0, border(whole, dim, before, False))
            if after > 0:
                parts.append(border(whole, dim, after, True))
            x = cat(parts, dim)
        return x.node

    return rule


REWRITES: Final = tuple(
    Rewrite(getattr(aten, f"{name}{rank}d").default, _padded(border), computes=False, note=note)
    for name, border, note in (
        ("reflection_pad", _mirrored, "concatenates reversed slices"),
        ("replication_pad", _repeated, "concatenates repeated slices"),
    )
    for rank in (1, 2, 3)
)
