# SPDX-License-Identifier: Apache-2.0
"""Scatters, as scatters of slices by an index of rank 1, or of elements along one dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of, short_name
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.accumulation import SUMS, accumulated
from delegatec.edge.legalize.rules.indices import ElementIndex, TensorIndex, as_int32, progression, unexpand
from delegatec.edge.legalize.value import Value, cat, value_of

aten = torch.ops.aten


def _broadcast(value: Value, shape: Sequence[int]) -> Value:
    return _aligned(value, len(shape)).expand(*shape)


def _aligned(value: Value, rank: int) -> Value:
    """Prepends dimensions of size 1."""
    return value.view(*(1,) * (rank - value.rank), *value.shape)


def _slice_scatter(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    data = value_of(builder, bound["self"])
    updates = value_of(builder, bound["src"], data.dtype)
    dim = positive(bound["dim"], data.rank)
    size, step = data.shape[dim], bound["step"]
    start, end, _ = slice(bound["start"], bound["end"]).indices(size)
    end = max(start, end)
    count = len(range(start, end, step))
    updates = _broadcast(updates, [count if d == dim else each for d, each in enumerate(data.shape)])
    if step != 1:
        return data.put(dim, progression(builder, count, start=start, step=step), updates).node
    ends = [data.slice(dim, 0, start)] if start else []
    rest = [data.slice(dim, end, size)] if end < size else []
    return cat([*ends, updates, *rest], dim).node


def _index_put(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    data, updates = value_of(builder, bound["self"]), value_of(builder, bound["values"], dtype_of(node))
    if _mask(bound["indices"]) is not None:
        return _masked(bound["indices"], data, updates).node
    place = TensorIndex(data, bound["indices"])
    before, after = place.shape[: place.axis], place.shape[place.axis + 1 :]
    result = (*before, *place.index.shape, *after)
    if place.index.rank == 1:  # The operator broadcasts.
        updates = _aligned(updates, len(result))
    else:
        updates = _broadcast(updates, result).view(*before, place.index.numel, *after)
    index = place.index.view(place.index.numel)
    if bound["accumulate"]:
        updates = updates.expand(*before, *index.shape, *after)
        return place.back(accumulated(place.of(data), place.axis, index, updates)).node
    return place.back(place.of(data).put(place.axis, index, updates)).node


def _mask(indices: Sequence[Node | None]) -> Node | None:
    """Returns the mask if it is the only index."""
    given = [index for index in indices if index is not None]
    return given[0] if len(given) == 1 and dtype_of(given[0]) == torch.bool else None


def _masked(indices: Sequence[Node | None], data: Value, updates: Value) -> Value:
    """Replaces the elements that a mask selects; the mask's dimensions are one dimension of the updates."""
    mask = _mask(indices)
    assert mask is not None
    axis, size, rank = list(indices).index(mask), max(len(shape_of(mask)), 1), data.rank
    condition = value_of(data.builder, mask).view(
        *(1,) * axis, *data.shape[axis : axis + size], *(1,) * (rank - axis - size)
    )
    updates = _aligned(updates, rank - size + 1)
    shape = updates.shape
    return condition.where(updates.view(*shape[:axis], *(1,) * size, *shape[axis + 1 :]), data)


def _scatter(builder: Builder, node: Node) -> Node:
    """Scatters along the dimension if the index covers all others; otherwise by positions in a view."""
    bound, wanted = bind(node), shape_of(bind(node)["index"])
    data, update = value_of(builder, bound["self"]), bound["src"] if "src" in bound else bound["value"]
    shape, index = data.shape, bound["index"]
    dim = positive(bound["dim"], data.rank)
    updates = value_of(builder, update, dtype_of(node))
    if isinstance(update, Node):
        for d, size in enumerate(wanted):
            updates = updates.slice(d, 0, size)
    else:
        updates = _broadcast(updates, wanted)
    if not shape:
        return updates.view().node
    if all(wanted[d] == size or d == dim for d, size in enumerate(shape)) and unexpand(index) is index:
        places = as_int32(builder, index, 0, shape[dim] - 1)
        return _scattered_lines(data, dim, places, updates).node
    place = ElementIndex(data, dim, index)
    places = place.index.view(place.index.numel)
    slices = (*place.shape[: place.axis], *places.shape, *place.shape[place.axis + 1 :])
    return data.view(*place.shape).put(place.axis, places, updates.view(*slices)).view(*shape).node


def _scattered_lines(data: Value, dim: int, places: Value, updates: Value) -> Value:
    """Scatters without dimensions of size 1."""
    kept = [d for d, size in enumerate(data.shape) if size > 1 or d == dim]
    lean, index, updates = (value.view(*(value.shape[d] for d in kept)) for value in (data, places, updates))
    wide = index.to(torch.int64)
    return lean.scatter(kept.index(dim), wide, updates).view(*data.shape)


def _masked_scatter(builder: Builder, node: Node) -> Node:
    """Writes the elements of the source, in order, to the selected positions, which a running sum counts.

    If the mask is an expansion along the last dimensions, complete rows are written.
    """
    bound = bind(node)
    x, source = value_of(builder, bound["self"]), value_of(builder, bound["source"])
    shape, base = shape_of(node), unexpand(bound["mask"])
    own = (*(1,) * (len(shape) - len(shape_of(base))), *shape_of(base))
    kept = max((dim + 1 for dim in range(len(shape)) if own[dim] > 1), default=0)
    rows, width = shape[:kept], math.prod(shape[kept:])
    if source.numel % width:
        rows, width = shape, 1
    mask = value_of(builder, base, torch.bool)
    if rows:
        mask = _broadcast(mask.view(*own[: len(rows)]), rows)
    count = math.prod(rows)
    number = mask.view(count).to(torch.int32).cumsum(0) - 1
    taken = source.view(source.numel // width, width).index_select(0, number.clamp(0))
    kept_rows = _broadcast(x, shape).view(count, width)
    return mask.view(count, 1).where(taken, kept_rows).view(*shape).node


def _are_indices(node: Node, _: object) -> str | None:
    given = [index for index in bind(node)["indices"] if index is not None]
    if _mask(given) is not None:
        return None
    if given and all(dtype_of(index) in (torch.int32, torch.int64) for index in given):
        return None
    return f"indices of dtypes {', '.join(short_name(dtype_of(index)) for index in given) or 'none'}"


def _counted_values(node: Node, _: object) -> str | None:
    bound = bind(node)
    mask = _mask(bound["indices"])
    if mask is None:
        return None
    if bound["accumulate"]:
        return "accumulate is true"
    # The dimension of the updates that counts selected elements, from the end.
    after = len(shape_of(bound["self"])) - list(bound["indices"]).index(mask) - len(shape_of(mask))
    sizes = shape_of(bound["values"])
    several = len(sizes) > after and sizes[len(sizes) - 1 - after] > 1
    return f"values of shape {list(sizes)}" if several else None


REWRITES: Final = (
    Rewrite(
        aten.slice_scatter.default,
        _slice_scatter,
        (HAS_AXIS,),
        note="concatenates the slice before, the update, and the slice after; with a step by index_put",
    ),
    Rewrite(
        aten.index_put.default,
        _index_put,
        (
            HAS_AXIS,
            Constraint("dtype", "Indices are int32 or int64, or one is a mask.", _are_indices),
            Constraint(
                "argument",
                "With a mask, one value replaces all selected elements: the positions of several values are "
                "data-dependent.",
                _counted_values,
                "torch.where",
            ),
            SUMS,
        ),
        note="several indices as positions in a view; a mask by where; accumulation by comparison of each "
        "position with each index",
    ),
    *(
        Rewrite(
            target,
            _scatter,
            note="along the dimension if the index has the other sizes of the operand; otherwise by "
            "positions in a view",
        )
        for target in (aten.scatter.src, aten.scatter.value)
    ),
    Rewrite(
        aten.masked_scatter.default,
        _masked_scatter,
        (HAS_AXIS,),
        note="the running sum of the mask determines the element for each position",
    ),
)
