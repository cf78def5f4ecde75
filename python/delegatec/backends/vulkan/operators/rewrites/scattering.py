# SPDX-License-Identifier: Apache-2.0
"""Scatters of slices along a dimension: the runtime has none, so every slice is selected."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import as_int32, positions
from delegatec.edge.legalize.value import Value, table, value_of

aten = torch.ops.aten


def _index_put(builder: Builder, node: Node) -> Node | None:
    """Replaces slices at the positions of a list, the last one if a position is repeated."""
    bound = bind(node)
    given = [(dim, index) for dim, index in enumerate(bound["indices"]) if index is not None]
    if len(given) != 1 or bound["accumulate"]:
        return None
    ((dim, index),) = given
    data, updates = value_of(builder, bound["self"]), value_of(builder, bound["values"])
    if len(shape_of(index)) != 1 or dtype_of(index) == torch.bool or not data.shape:
        return None
    size, count = data.shape[dim], shape_of(index)[0]
    if not isinstance(count, int) or not isinstance(size, int):
        return None
    places = as_int32(builder, index, -size, size - 1)
    if builder.facts.of(index).low < 0:
        places = places + places.lt(0).to(torch.int32) * size
    found = positions(builder, size, 0, 2).eq(places.view(1, count))
    column = (size, *[1] * (data.rank - dim - 1))
    if count == 1:
        return found.view(*column).where(updates, data).node
    numbers = table(builder, torch.arange(1.0, count + 1))
    last = Value(builder, builder.call(aten.amax.default, found.where(numbers, 0.0).node, [1]))
    source = (last - 1.0).clamp(0.0).to(torch.int32)
    shape = (*data.shape[:dim], count, *data.shape[dim + 1 :])
    spread = updates.view(*[1] * (data.rank - updates.rank), *updates.shape).expand(*shape)
    return last.gt(0.0).view(*column).where(spread.index_select(dim, source), data).node


REWRITES: Final = (Rewrite(aten.index_put.default, _index_put, note="a selection of each slice"),)
