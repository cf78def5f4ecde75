# SPDX-License-Identifier: Apache-2.0
"""Writes of slices: by indices, by masks, and of a range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of, short_name
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import FunctionTable, Rewrite, RuleTable
from delegatec.edge.legalize.rules.indices import (
    TensorIndex,
    as_int32,
    nonnegative_index,
    positions,
    progression,
    unexpand,
)
from delegatec.edge.legalize.rules.scatter import MOST_PAIRS, ONE_VALUE, SUMS, accumulated, any_of_dim
from delegatec.edge.legalize.value import Value, cat, table, value_of

aten = torch.ops.aten


# ---- slices ----------------------------------------------------------------------------------------------


def _select_scatter(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    size, index = shape_of(a["self"])[a["dim"]], a["index"]
    if not isinstance(index, int) or (index < 0 and not isinstance(size, int)):
        return None
    start = index + size if index < 0 else index
    dim = a["dim"] % len(shape_of(node))
    update = b.call(aten.unsqueeze.default, a["src"], dim)
    return b.call(aten.slice_scatter.default, a["self"], update, dim, start, start + 1, val=node.meta["val"])


def _diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    rank = x.dim()
    dim1, dim2 = dim1 % rank, dim2 % rank
    length = src.shape[-1]
    if isinstance(length, int) and length == 0:
        return NotImplemented
    others = [dim for dim in range(rank) if dim not in (dim1, dim2)]
    moved = x.permute([dim1, dim2, *others])
    at = torch.arange(length)
    rows, columns = at + max(-offset, 0), at + max(offset, 0)
    values = src.to(x.dtype).permute([-1 % src.dim(), *range(src.dim() - 1)])
    written = aten.index_put.default(moved, [rows, columns], values)
    return torch.movedim(written, [*range(rank)], [dim1, dim2, *others])


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


# ---- indices and masks -----------------------------------------------------------------------------------


def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Writes a scalar or 0-d tensor to some positions of one dimension."""
    if not isinstance(value, Tensor):
        value = torch.full([], value, dtype=x.dtype)
    if x.dim() == 0:
        return torch.where(
            (index.reshape(-1) == 0).any() | (index.reshape(-1) == -1).any(), value.to(x.dtype), x
        )
    indices: list[Tensor | None] = [None] * (dim % x.dim())
    result: Tensor = aten.index_put.default(x, [*indices, index.reshape(-1)], value.to(x.dtype))
    return result


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes to positions in row-major order."""
    flat = aten.index_put.default(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    result: Tensor = flat.reshape(x.shape)
    return result


def _broadcast(value: Value, shape: Sequence[int]) -> Value:
    return _aligned(value, len(shape)).expand(*shape)


def _aligned(value: Value, rank: int) -> Value:
    """Prepends dimensions of size 1."""
    return value.view(*(1,) * (rank - value.rank), *value.shape)


def _index_put(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    data, updates = value_of(builder, bound["self"]), value_of(builder, bound["values"], dtype_of(node))
    if _mask(bound["indices"]) is not None:
        return _masked(bound["indices"], data, updates).node
    selected = TensorIndex(data, bound["indices"])
    before, after = selected.shape[: selected.axis], selected.shape[selected.axis + 1 :]
    result = (*before, *selected.index.shape, *after)
    if selected.index.rank == 1:  # The operator broadcasts.
        updates = _aligned(updates, len(result))
    else:
        updates = _broadcast(updates, result).view(*before, selected.index.numel, *after)
    index = selected.index.view(selected.index.numel)
    if bound["accumulate"]:
        updates = updates.expand(*before, *index.shape, *after)
        return selected.back(accumulated(selected.of(data), selected.axis, index, updates)).node
    return selected.back(selected.of(data).put(selected.axis, index, updates)).node


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
    ordinal = mask.view(count).to(torch.int32).cumsum(0) - 1
    taken = source.view(source.numel // width, width).index_select(0, ordinal.clamp(0))
    kept_rows = _broadcast(x, shape).view(count, width)
    return mask.view(count, 1).where(taken, kept_rows).view(*shape).node


# ---- for targets that scatter to distinct positions, or not at all ---------------------------------------


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
    return count > 1 and math.prod(own) == 1 and count * data[dim] <= MOST_PAIRS


def _put_one_value(builder: Builder, node: Node) -> Node | None:
    if not puts_one_value(node):
        return None
    bound = bind(node)
    ((dim, index),) = ((dim, index) for dim, index in enumerate(bound["indices"]) if index is not None)
    data = value_of(builder, bound["self"])
    updates = value_of(builder, bound["values"], data.dtype)
    size, after = data.shape[dim], data.rank - dim - 1
    targets = nonnegative_index(builder, index, size)
    hits = any_of_dim(positions(builder, size, 0, 2).eq(targets.view(1, targets.numel)), 1)
    rank = len(shape_of(index))
    sizes = (*(1,) * (dim + rank + after - updates.rank), *updates.shape)
    values = updates.view(*sizes[:dim], 1, *sizes[dim + rank :])
    return hits.view(*(1,) * dim, size, *(1,) * after).where(values, data).node


def _put_by_selection(builder: Builder, node: Node) -> Node | None:
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
    targets = as_int32(builder, index, -size, size - 1)
    if builder.facts.of(index).low < 0:
        targets = targets + targets.lt(0).to(torch.int32) * size
    found = positions(builder, size, 0, 2).eq(targets.view(1, count))
    column = (size, *[1] * (data.rank - dim - 1))
    if count == 1:
        return found.view(*column).where(updates, data).node
    ordinals = table(builder, torch.arange(1.0, count + 1))
    last = found.where(ordinals, 0.0).amax([1])
    source = (last - 1.0).clamp(0.0).to(torch.int32)
    shape = (*data.shape[:dim], count, *data.shape[dim + 1 :])
    spread = updates.view(*[1] * (data.rank - updates.rank), *updates.shape).expand(*shape)
    return last.gt(0.0).view(*column).where(spread.index_select(dim, source), data).node


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


RULES: RuleTable = {aten.select_scatter.default: _select_scatter}

FUNCTIONS: FunctionTable = {
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.put.default: _put,
}

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
        note="several indices as linear indices into a view; a mask by where; accumulation by comparison of "
        "each position with each index",
    ),
    Rewrite(
        aten.masked_scatter.default,
        _masked_scatter,
        (HAS_AXIS,),
        note="the cumulative sum of the mask selects the element for each position",
    ),
)

PUT_ONE_VALUE: Final = Rewrite(aten.index_put.default, _put_one_value, note=ONE_VALUE)
PUT_BY_SELECTION: Final = Rewrite(aten.index_put.default, _put_by_selection, note="a selection of each slice")
