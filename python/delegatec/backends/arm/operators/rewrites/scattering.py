# SPDX-License-Identifier: Apache-2.0
"""Scatters of one value, whose positions may be repeated, unlike those of SCATTER: each is compared."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import as_int32, nonnegative_index, positions
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

_MOST_PAIRS: Final = 1 << 22
"""Comparisons of a position with an index."""


def puts_one_value(node: Node) -> bool:
    """Whether a call of index_put writes the same elements to several positions, by one integer index."""
    bound = bind(node)
    given = [(dim, index) for dim, index in enumerate(bound["indices"]) if index is not None]
    if len(given) != 1 or bound["accumulate"] or dtype_of(given[0][1]) == torch.bool:
        return False
    ((dim, index),) = given
    data, rank = shape_of(bound["self"]), len(shape_of(index))
    count, updates = math.prod(shape_of(index)), shape_of(bound["values"])
    after = len(data) - dim - 1
    own = updates[: len(updates) - after][-rank:] if rank else ()
    return count > 1 and math.prod(own) == 1 and count * data[dim] <= _MOST_PAIRS


def _index_put(builder: Builder, node: Node) -> Node | None:
    if not puts_one_value(node):
        return None
    bound = bind(node)
    ((dim, index),) = ((dim, index) for dim, index in enumerate(bound["indices"]) if index is not None)
    data = value_of(builder, bound["self"])
    updates = value_of(builder, bound["values"], data.dtype)
    size, after = data.shape[dim], data.rank - dim - 1
    places = nonnegative_index(builder, index, size)
    hits = _any(positions(builder, size, 0, 2).eq(places.view(1, places.numel)), 1)
    rank = len(shape_of(index))
    sizes = (*(1,) * (dim + rank + after - updates.rank), *updates.shape)
    values = updates.view(*sizes[:dim], 1, *sizes[dim + rank :])
    return hits.view(*(1,) * dim, size, *(1,) * after).where(values, data).node


def _any(found: Value, dim: int) -> Value:
    shape = [size for each, size in enumerate(found.shape) if each != dim]
    builder = found.builder
    return Value(builder, builder.call(aten.any.dim, found.node, dim, val=builder.empty(shape, torch.bool)))


def _scatter_value(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    data, wanted = value_of(builder, bound["self"]), shape_of(bound["index"])
    dim = positive(bound["dim"], data.rank) if data.rank else 0
    if not data.rank or 0 in wanted or wanted[dim] == 1:
        return None
    size, count = data.shape[dim], wanted[dim]
    if math.prod(wanted) * size > _MOST_PAIRS:
        return None
    order = [*(each for each in range(data.rank) if each != dim), dim]
    index = as_int32(builder, bound["index"], 0, size - 1).permute(*order)
    outer = math.prod(index.shape[:-1])
    hits = _any(positions(builder, size, 1, 3).eq(index.view(outer, 1, count)), 2)
    mask = hits.view(*index.shape[:-1], size).permute(*(order.index(each) for each in range(data.rank)))
    # the index may cover a part of the other dimensions
    ends = [end - own for own, end in zip(mask.shape, data.shape, strict=True)]
    if any(ends):
        mask = mask.pad([each for end in reversed(ends) for each in (0, end)], False)
    return mask.where(full(builder, (), bound["value"], data.dtype), data).node


def _rewrite(target: Any, rule: Any) -> Rewrite:
    return Rewrite(target, rule, note="one value for positions that may be repeated: by comparison of each")


REWRITES: Final = (
    _rewrite(aten.index_put.default, _index_put),
    _rewrite(aten.scatter.value, _scatter_value),
)
