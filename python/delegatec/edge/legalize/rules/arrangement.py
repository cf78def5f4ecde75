# SPDX-License-Identifier: Apache-2.0
"""Movements of elements by views, permutations, slices and concatenation."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import progression
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import cat, value_of

aten = torch.ops.aten


def _diagonal(builder: Builder, node: Node) -> Node:
    """Takes one slice: in row-major order the elements of a diagonal are a row and a column apart."""
    bound = bind(node)
    x, offset = value_of(builder, bound["self"]), bound["offset"]
    two = [positive(bound[name], x.rank) for name in ("dim1", "dim2")]
    moved = x.permute(*(dim for dim in range(x.rank) if dim not in two), *two)
    *outer, rows, columns = moved.shape
    start = offset if offset >= 0 else -offset * columns
    end = start + (shape_of(node)[-1] - 1) * (columns + 1) + 1
    return moved.view(*outer, rows * columns).slice(len(outer), start, end, columns + 1).node


def _lower_triangle(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    rows, columns = progression(builder, x.shape[-2], 1), progression(builder, x.shape[-1])
    last = rows + bound["diagonal"] if bound["diagonal"] else rows
    return last.ge(columns).where(x, False if x.dtype == torch.bool else 0).node


def _roll(builder: Builder, node: Node) -> Node:
    """Moves the last elements of a dimension before the others; without dimensions, in row-major order."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    shape = x.shape
    rolled = x if bound["dims"] else x.view(math.prod(shape))
    for dim, shift in zip(bound["dims"] or [0], bound["shifts"], strict=True):
        dim, size = positive(dim, rolled.rank), rolled.shape[dim]
        cut = -shift % size
        if cut:
            rolled = cat([rolled.slice(dim, cut, size), rolled.slice(dim, 0, cut)], dim)
    return rolled.view(*shape).node


def _repeat(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x, repeats = value_of(builder, bound["self"]), bound["repeats"]
    shape = (1,) * (len(repeats) - x.rank) + x.shape
    # A new dimension for each one that is repeated; those between are one, as targets limit their number.
    apart: list[int] = []
    wide: list[int] = []
    is_joined = False
    for count, size in zip(repeats, shape, strict=True):
        if count != 1:
            apart, wide, is_joined = [*apart, 1], [*wide, count], False
        if is_joined and isinstance(size, int) and isinstance(apart[-1], int):
            apart[-1] = wide[-1] = apart[-1] * size
        else:
            apart, wide, is_joined = [*apart, size], [*wide, size], True
    return x.view(*apart).expand(*wide).view(*shape_of(node)).node


def _pixel_shuffle(builder: Builder, node: Node) -> Any:
    """Shuffles all images as one batch."""
    x = value_of(builder, bind(node)["self"])
    images = x.view(math.prod(x.shape[:-3]), *x.shape[-3:])
    return None if x.rank == 4 else again(builder, node, self=images.node)


REWRITES: Final = (
    Rewrite(
        aten.diagonal.default, _diagonal, note="a slice of rows and columns as one dimension", computes=False
    ),
    Rewrite(aten.tril.default, _lower_triangle, computes=False),
    Rewrite(aten.roll.default, _roll, (HAS_AXIS,), computes=False),
    Rewrite(aten.repeat.default, _repeat, computes=False),
    Rewrite(aten.pixel_shuffle.default, _pixel_shuffle, note="images as one batch", computes=False),
)
