# SPDX-License-Identifier: Apache-2.0
"""Tensors with some elements replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.folding import running_sum
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import cat, operand
from delegatec.backends.mps.operators.lookups.accumulation import SUMS, accumulated
from delegatec.backends.mps.operators.lookups.addressing import Indexing, Lines, unexpanded
from delegatec.backends.mps.operators.lookups.places import (
    EXACT,
    INDICES,
    aligned,
    broadcast,
    moved,
    progression,
    put,
    scatter,
)
from delegatec.backends.mps.operators.moves.slices import slice_bounds
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.nodes import dtype_of, positive, shape_of, short_name


def _slice_scatter(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, update = bound["self"], bound["src"]
    shape = shape_of(source)
    dim = positive(bound["dim"], len(shape))
    start, end, step = slice_bounds(bound, shape[dim])
    data, updates = operand(b, source), operand(b, update, dtype_of(source))
    count = len(range(start, end, step))
    updates = broadcast(updates, [count if d == dim else size for d, size in enumerate(shape)])
    if step == 1:
        ends = [data.slice(dim, 0, start)] if start else []
        rest = [data.slice(dim, end, shape[dim])] if end < shape[dim] else []
        cat([*ends, updates, *rest], dim).bind(node)
        return
    places = progression(b, count, start=start, step=step)
    moved(b, [source, update], [data, updates], lambda x, u: put(x, dim, places, u)).bind(node)


def _index_put(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, values = bound["self"], bound["values"]
    data, updates = operand(b, source), operand(b, values, dtype_of(node))
    if _mask(bound["indices"]) is not None:
        _masked(b, bound["indices"], data, updates).bind(node)
        return
    place = Indexing(b, source, bound["indices"])
    before, after = place.shape[: place.axis], place.shape[place.axis + 1 :]
    whole = (*before, *place.index.shape, *after)
    if len(place.index.shape) == 1:  # The operation broadcasts by itself.
        updates = aligned(updates, len(whole))
    else:
        updates = broadcast(updates, whole).view(*before, math.prod(place.index.shape), *after)
    index = place.index.view(math.prod(place.index.shape))
    if bound["accumulate"]:
        updates = updates.expand(*before, *index.shape, *after)
        place.back(accumulated(place.of(data), place.axis, index, updates)).bind(node)
        return

    def replaced(data: Expression, updates: Expression) -> Expression:
        return place.back(put(place.of(data), place.axis, index, updates))

    moved(b, [source, values], [data, updates], replaced).bind(node)


def _mask(indices: Sequence[Node | None]) -> Node | None:
    """The index, if it is one, and a mask."""
    given = [index for index in indices if index is not None]
    return given[0] if len(given) == 1 and dtype_of(given[0]) == torch.bool else None


def _masked(
    b: GraphBuilder, indices: Sequence[Node | None], data: Expression, updates: Expression
) -> Expression:
    """Elements where a mask is true take the place of the mask's dimensions in the updates, as one."""
    mask = _mask(indices)
    assert mask is not None
    axis, size = list(indices).index(mask), max(len(shape_of(mask)), 1)
    rank = len(data.shape)
    condition = operand(b, mask).view(
        *(1,) * axis, *data.shape[axis : axis + size], *(1,) * (rank - axis - size)
    )
    updates = aligned(updates, rank - size + 1)
    shape = updates.shape
    return condition.where(updates.view(*shape[:axis], *(1,) * size, *shape[axis + 1 :]), data)


def _scatter(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, index = bound["self"], bound["index"]
    shape, wanted = shape_of(source), shape_of(index)
    dim = positive(bound["dim"], len(shape))
    data, update = operand(b, source), bound["src"] if "src" in bound else bound["value"]
    updates = operand(b, update, dtype_of(node))
    if isinstance(update, Node):
        for d, size in enumerate(wanted):
            updates = updates.slice(d, 0, size)
    else:
        updates = broadcast(updates, wanted)
    if not shape:
        updates.view().bind(node)
        return
    whole = all(wanted[d] == size or d == dim for d, size in enumerate(shape))
    if whole and unexpanded(b, index) is index:
        places = broadcast(operand(b, index, torch.int32), wanted)
        moved(b, [source, update], [data, updates], lambda x, u: scatter(x, dim, places, u)).bind(node)
        return
    place = Lines(b, source, dim, index)
    flat = place.index.view(math.prod(place.index.shape))

    def replaced(data: Expression, updates: Expression) -> Expression:
        slices = (*place.shape[: place.axis], *flat.shape, *place.shape[place.axis + 1 :])
        return put(data.view(*place.shape), place.axis, flat, updates.view(*slices)).view(*shape)

    moved(b, [source, update], [data, updates], replaced).bind(node)


def _masked_scatter(b: GraphBuilder, node: Node) -> None:
    """Elements of the source, in order, go where the mask is true: each has the number of those before it.

    Where the mask is an expansion along the last dimensions, whole rows go.
    """
    bound = bind(node)
    data, source = bound["self"], bound["source"]
    shape, base = shape_of(node), unexpanded(b, bound["mask"])
    own = (*(1,) * (len(shape) - len(shape_of(base))), *shape_of(base))
    kept = max((dim + 1 for dim in range(len(shape)) if own[dim] > 1), default=0)
    rows, width = shape[:kept], math.prod(shape[kept:])
    if math.prod(shape_of(source)) % width:
        rows, width = shape, 1
    mask = broadcast(operand(b, base, torch.bool).view(*own[: len(rows)]), rows) if rows else operand(b, base)
    number = running_sum(mask.view(math.prod(rows)).to(torch.int32), 0) - 1

    def replaced(x: Expression, update: Expression) -> Expression:
        table = update.view(math.prod(update.shape) // width, width)
        taken = table.index_select(0, number.clamp(0))
        kept_rows = broadcast(x, shape).view(math.prod(rows), width)
        return mask.view(math.prod(rows), 1).where(taken, kept_rows).view(*shape)

    moved(b, [data, source], [operand(b, data), operand(b, source)], replaced).bind(node)


def _are_indices(node: Node, _: object) -> str | None:
    given = [index for index in bind(node)["indices"] if index is not None]
    if _mask(given) is not None or (given and all(dtype_of(index) in INDICES for index in given)):
        return None
    return f"indices of dtypes {', '.join(short_name(dtype_of(index)) for index in given) or 'none'}"


def _counted_values(node: Node, _: object) -> str | None:
    bound = bind(node)
    mask = _mask(bound["indices"])
    if mask is None:
        return None
    if bound["accumulate"]:
        return "it accumulates"
    # Of the updates, the dimension that counts elements of the mask, seen from behind.
    after = len(shape_of(bound["self"])) - list(bound["indices"]).index(mask) - len(shape_of(mask))
    sizes = shape_of(bound["values"])
    several = len(sizes) > after and sizes[len(sizes) - 1 - after] > 1
    return f"values of shape {list(sizes)}" if several else None


_SCATTER: Final = ("Scatter", "IndexPut", "View", "Slice", "Expand", "Mul", *EXACT)

ROWS: Final = (
    OperatorRow(
        overload("slice_scatter"),
        ("Slice", "Cat", "IndexPut", *EXACT),
        _slice_scatter,
        (HAS_AXIS,),
        note="Cat of what is before, the update, and what is behind; with a step, IndexPut",
    ),
    OperatorRow(
        overload("index_put"),
        (
            *("IndexPut", "Permute", "View", "Expand", "Mul", "Lt", "Where", "Eq", "Mean", "Full", "Slice"),
            *EXACT,
        ),
        _index_put,
        (
            HAS_AXIS,
            Constraint("dtype", "Indices are int32 or int64, or one is a mask.", _are_indices),
            Constraint(
                "argument",
                "At a mask, one value for all of its elements replaces them: which of several goes where is "
                "not known before.",
                _counted_values,
                "torch.where",
            ),
            SUMS,
        ),
        note="several indices as positions in a View; a mask by Where; accumulation by comparison of each "
        "place with each index",
    ),
    *(
        OperatorRow(
            overload(name),
            _SCATTER,
            _scatter,
            note="Scatter if the index has the sizes of the operand, but along the dimension; else by "
            "positions in a View",
        )
        for name in ("scatter.src", "scatter.value")
    ),
    OperatorRow(
        overload("masked_scatter"),
        ("View", "Expand", "Cast", "Slice", "ConstantPadND", "Sub", "Clamp", "IndexSelect", "Where", *EXACT),
        _masked_scatter,
        (HAS_AXIS,),
        note="the running sum of the mask says which element goes where",
    ),
)
