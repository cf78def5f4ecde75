# SPDX-License-Identifier: Apache-2.0
"""Moves that TOSA lacks."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten


def _steps(builder: Builder, node: Node) -> Node | None:
    """Takes the first of each group of `step` elements."""
    bound = bind(node)
    x, step = value_of(builder, bound["self"]), bound["step"]
    dim = positive(bound["dim"], x.rank)
    size, count = x.shape[dim], shape_of(node)[dim]
    if step == 1:
        return None
    start, _, _ = slice(bound["start"], bound["end"], step).indices(size)
    if count == 1:
        return x.slice(dim, start, start + 1).node
    before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    x = x.view(before, size, after)
    # the groups end before the last element, if there are enough elements
    first = max(0, min(start, size - count * step))
    missing = first + count * step - size
    if missing > 0:
        x = x.pad([0, 0, 0, missing])
    groups = x.slice(1, first, first + count * step).view(before, count, step, after)
    return groups.slice(2, start - first, start - first + 1).view(*shape_of(node)).node


def _flip(builder: Builder, node: Node) -> Node | None:
    """Reverses the second of three dimensions: one, those before it as one, and those after it.

    On Ethos-U55 and U65, Vela reverses only the second and the third last dimension.
    """
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dims = sorted(positive(dim, x.rank) for dim in bound["dims"] if x.rank)
    if x.rank == 3 and dims == [1]:
        return None
    for dim in dims:
        if x.shape[dim] > 1:
            rows = x.view(math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :]))
            x = Value(builder, builder.call(aten.flip.default, rows.node, [1])).view(*x.shape)
    return x.node


REWRITES: Final = (
    Rewrite(aten.slice.Tensor, _steps, computes=False, note="steps as slices of groups"),
    Rewrite(aten.flip.default, _flip, computes=False, note="the second of three dimensions"),
)
