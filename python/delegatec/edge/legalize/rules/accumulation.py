# SPDX-License-Identifier: Apache-2.0
"""Scatter-add for targets that only overwrite: each position is compared with each index."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import as_int32, progression
from delegatec.edge.legalize.value import Value, cat, full, value_of

aten = torch.ops.aten

_MOST_PAIRS: Final = 1 << 22
"""Maximum number of comparisons of a position with an index: 16 MiB of float32."""


def accumulated(data: Value, axis: int, index: Value, updates: Value) -> Value:
    """Adds slices at positions along an axis; slices with the same position add up."""
    builder, shape = data.builder, data.shape
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    lines = updates.view(before, index.shape[0], after).permute(0, 2, 1)
    places = progression(builder, shape[axis], 2).eq(index.view(1, 1, index.shape[0]))
    return data + _sum_selected(places, lines.view(before, 1, after, index.shape[0])).view(*shape)


def _sum_selected(hits: Value, updates: Value) -> Value:
    """Sums the selected updates along the last dimension, by a choice: infinity times zero would be NaN."""
    selected = hits.where(updates, 0)
    return selected.sum([selected.rank - 1])


def _scatter_add(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    shape, wanted = shape_of(node), shape_of(bound["index"])
    dim = positive(bound["dim"], len(shape))
    order = [*(d for d in range(len(shape)) if d != dim), dim]
    updates = value_of(builder, bound["src"], dtype_of(node))
    for d, size in enumerate(wanted):
        updates = updates.slice(d, 0, size)
    index = as_int32(builder, bound["index"], 0, shape[dim] - 1).permute(*order)
    outer, count = index.shape[:-1], wanted[dim]
    hits = progression(builder, shape[dim], 1).eq(index.view(*outer, 1, count))
    total = _sum_selected(hits, updates.permute(*order).view(*outer, 1, count))
    for place, d in enumerate(order[:-1]):  # Positions beyond the index receive nothing.
        if missing := shape[d] - wanted[d]:
            nothing = [*total.shape[:place], missing, *total.shape[place + 1 :]]
            total = cat([total, full(builder, nothing, 0, total.dtype)], place)
    back = [order.index(d) for d in range(len(order))]
    return (value_of(builder, bound["self"]) + total.permute(*back)).node


def _pairs(node: Node) -> int:
    """Returns the number of comparisons of a position with an index."""
    bound = bind(node)
    shape = shape_of(bound["self"])
    if "index" in bound:
        size: int = shape[bound["dim"]]
        return math.prod(shape_of(bound["index"])) * size
    given = [shape_of(index) for index in bound["indices"] if index is not None]
    sizes = zip(*((1,) * (max(map(len, given)) - len(sizes)) + sizes for sizes in given), strict=True)
    count: int = math.prod(map(max, sizes))
    return math.prod(shape) * count


def _unsupported_accumulation(node: Node, _: object) -> str | None:
    if not bind(node).get("accumulate", True):
        return None
    if dtype_of(node) == torch.bool:
        return "it adds bools"
    return f"{_pairs(node)} pairs" if _pairs(node) > _MOST_PAIRS else None


SUMS: Final = Constraint[object](
    "accumulate",
    "It adds numbers, not bools, and positions times elements are at most 2^22: all pairs are compared, as "
    "scatters only overwrite.",
    _unsupported_accumulation,
    "run it on the portable kernel",
)

REWRITES: Final = (
    Rewrite(
        aten.scatter_add.default,
        _scatter_add,
        (HAS_AXIS, SUMS),
        note="by comparison of each position with each index",
    ),
)
