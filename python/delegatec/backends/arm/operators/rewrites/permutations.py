# SPDX-License-Identifier: Apache-2.0
"""Permutations that a target supports of fewer dimensions, or of fewer elements."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import cat, value_of

aten = torch.ops.aten

_MOST_HALVINGS: Final = 4


def _runs(shape: tuple[int, ...], order: list[int]) -> list[list[int]]:
    """Returns the dimensions that stay next to each other, in the order of the result."""
    runs: list[list[int]] = []
    for dim in (each for each in order if shape[each] != 1):
        last = runs[-1][-1] if runs else dim
        is_next = last < dim and all(shape[each] == 1 for each in range(last + 1, dim))
        if is_next:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs


def _joined(builder: Builder, node: Node) -> Node | None:
    """Permutes without dimensions of size 1, and with those as one that stay next to each other."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    runs = _runs(x.shape, [positive(dim, x.rank) for dim in bound["dims"]])
    if len(runs) == x.rank:
        return None
    places = sorted(range(len(runs)), key=lambda place: runs[place][0])
    few = x.view(*(math.prod(x.shape[dim] for dim in runs[place]) for place in places))
    return few.permute(*(places.index(place) for place in range(len(runs)))).view(*shape_of(node)).node


def _halves(builder: Builder, node: Node) -> Node | None:
    """Permutes both halves of the largest dimension."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dims = [positive(dim, x.rank) for dim in bound["dims"]]
    if len(_runs(x.shape, dims)) != x.rank or _halvings(x.node) == _MOST_HALVINGS:
        return None
    size = max(x.shape)
    dim, half = x.shape.index(size), size // 2
    parts = [x.slice(dim, start, end).permute(*dims) for start, end in ((0, half), (half, size))]
    return cat(parts, dims.index(dim)).node


def _halvings(node: Node) -> int:
    """Returns how many slices of slices a value is, up to the most."""
    count = 0
    while count < _MOST_HALVINGS and node.target is aten.slice.Tensor:
        count += 1
        node = node.all_input_nodes[0]
    return count


REWRITES: Final = (
    Rewrite(aten.permute.default, _joined, computes=False, note="of fewer dimensions, some joined"),
    Rewrite(aten.permute.default, _halves, computes=False, note="of parts of the largest dimension"),
)
