# SPDX-License-Identifier: Apache-2.0
"""Scatters of elements along a dimension: those that overwrite, add and reduce.

Kernels add (`scatter_add`) and overwrite (`scatter`), most other targets only overwrite. For the rest, each
position is compared with each index, in memory, if there are at most `MOST_PAIRS` pairs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import FunctionTable, Rewrite
from delegatec.edge.legalize.rules.dynamic import at_most
from delegatec.edge.legalize.rules.indices import ElementIndex, as_int32, positions, progression, unexpand
from delegatec.edge.legalize.value import Value, cat, full, value_of
from delegatec.edge.symbols import largest, sizes_key

aten = torch.ops.aten

MOST_PAIRS: Final = 1 << 22
"""Maximum number of comparisons of a position with an index: 16 MiB of float32."""


# ---- reductions ------------------------------------------------------------------------------------------


def _neutral(src: Tensor, dim: int, dtype: torch.dtype, reduce: str) -> Tensor | float:
    """Returns a neutral element for the elements along a dimension."""
    if reduce == "prod":
        return 1
    if dtype is torch.bool:
        return reduce == "amin"
    if dtype.is_floating_point:
        return math.inf if reduce == "amin" else -math.inf
    # the bounds of int64 are beyond the int32 that some targets compute in
    return src.amax(dim, keepdim=True) if reduce == "amin" else src.amin(dim, keepdim=True)


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if x.dim() == 0:
        x, index, src = x.reshape(1), index.reshape(-1), src.reshape(-1)
        return _scatter_reduce(x, 0, index, src, reduce, include_self=include_self).reshape([])
    if any(isinstance(size, int) and size == 0 for size in index.shape):
        return x.clone()
    dim = dim % x.dim()
    src = src[tuple(slice(size) for size in index.shape)]
    if reduce in ("sum", "mean"):
        start = x if include_self else x.scatter(dim, index, 0)
        total = start.scatter_add(dim, index, src)
        if reduce == "sum":
            return total
        own = torch.ones_like(x) if include_self else torch.ones_like(x).scatter(dim, index, 0)
        count = own.scatter_add(dim, index, torch.ones_like(src)).clamp(min=1)
        return total / count if x.is_floating_point() else torch.div(total, count, rounding_mode="floor")
    if not at_most([x.shape[dim], *index.shape], MOST_PAIRS):
        return NotImplemented
    return _dense(x, dim, index, src, reduce, include_self)


def _dense(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    # an index may have smaller dimensions than `x`; elements beyond it stay
    reached = [x.shape[d] if d == dim else size for d, size in enumerate(index.shape)]
    inner = x[tuple(slice(size) for size in reached)]
    position = torch.arange(x.shape[dim]).view([-1] + [1] * (x.dim() - dim))
    hit = index.unsqueeze(dim) == position
    # some targets compute integers in float32, without the least ones: the element itself is neutral, too
    is_extremum = include_self and reduce != "prod"
    candidates = src.unsqueeze(dim)
    other = inner.unsqueeze(dim + 1) if is_extremum else _neutral(candidates, dim + 1, x.dtype, reduce)
    chosen = torch.where(hit, candidates, other).to(x.dtype)
    if reduce == "prod":
        found = chosen.prod(dim + 1)
    else:
        found = chosen.amax(dim + 1) if reduce == "amax" else chosen.amin(dim + 1)
    if include_self:
        merge = {"prod": torch.mul, "amax": torch.maximum, "amin": torch.minimum}[reduce]
        found = merge(found, inner)
    else:
        found = torch.where(hit.any(dim + 1), found, inner)
    result = found.to(x.dtype)
    for d in range(x.dim()):
        if sizes_key([reached[d]]) != sizes_key([x.shape[d]]):
            rest = x[tuple(slice(size) for size in reached[:d])].narrow(
                d, reached[d], x.shape[d] - reached[d]
            )
            result = torch.cat(
                [result, rest[(slice(None),) * (d + 1) + tuple(map(slice, result.shape[d + 1 :]))]], d
            )
    return result


def _scatter_with(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str) -> Any:
    """Computes the older form of scatter_reduce: reduce is "add" or "multiply", src may be a scalar."""
    if not isinstance(src, Tensor):
        src = torch.full(index.shape, src, dtype=x.dtype)
    return _scatter_reduce(x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if x.dim() == 0:
        return _index_reduce(
            x.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self
        ).reshape([])
    dim = dim % x.dim()
    source = source if source.dim() else source.reshape([1] * x.dim())
    expanded = index.reshape([-1] + [1] * (x.dim() - 1 - dim)).expand(source.shape)
    return _scatter_reduce(x, dim, expanded, source, reduce, include_self=include_self)


def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts the elements in each of `bins` ranges of equal width."""
    flat = x.reshape(-1)
    if not at_most([flat.shape[0], bins], MOST_PAIRS):
        return NotImplemented
    if isinstance(flat.shape[0], int) and not flat.shape[0]:
        return torch.zeros([bins], dtype=x.dtype)
    low, high = torch.full([], min, dtype=x.dtype), torch.full([], max, dtype=x.dtype)
    if min == max == 0:
        low, high = flat.amin(), flat.amax()
    equal = low == high
    low, high = torch.where(equal, low - 1, low), torch.where(equal, high + 1, high)
    # in torch's order of operations, whose rounding decides at the borders
    at = ((flat - low) * bins / (high - low)).floor().to(torch.int64).clamp(max=bins - 1)
    inside = (flat >= low) & (flat <= high)
    return ((at.unsqueeze(1) == torch.arange(bins)) & inside.unsqueeze(1)).to(x.dtype).sum(0)


# ---- sums ------------------------------------------------------------------------------------------------


def accumulated(data: Value, axis: int, index: Value, updates: Value) -> Value:
    """Adds slices at positions along an axis; slices with the same position add up."""
    builder, shape = data.builder, data.shape
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    lines = updates.view(before, index.shape[0], after).permute(0, 2, 1)
    hits = progression(builder, shape[axis], 2).eq(index.view(1, 1, index.shape[0]))
    return data + _sum_selected(hits, lines.view(before, 1, after, index.shape[0])).view(*shape)


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
    for axis_index, d in enumerate(order[:-1]):  # Positions beyond the index receive nothing.
        if missing := shape[d] - wanted[d]:
            nothing = [*total.shape[:axis_index], missing, *total.shape[axis_index + 1 :]]
            total = cat([total, full(builder, nothing, 0, total.dtype)], axis_index)
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
        return "the dtype is bool"
    return f"{_pairs(node)} pairs" if _pairs(node) > MOST_PAIRS else None


SUMS: Final = Constraint[object](
    "accumulate",
    "The dtype is not bool, and positions x elements are at most 2^22: all pairs are compared, because "
    "scatters only overwrite.",
    _unsupported_accumulation,
    "run it on the portable kernel",
)

# ---- without a reduction ---------------------------------------------------------------------------------


def _scatter(builder: Builder, node: Node) -> Node:
    """Scatters along the dimension if the index covers all others, otherwise by linear indices."""
    bound, wanted = bind(node), shape_of(bind(node)["index"])
    data, update = value_of(builder, bound["self"]), bound["src"] if "src" in bound else bound["value"]
    shape, index = data.shape, bound["index"]
    dim = positive(bound["dim"], data.rank)
    updates = value_of(builder, update, dtype_of(node))
    if isinstance(update, Node):
        for d, size in enumerate(wanted):
            updates = updates.slice(d, 0, size)
    else:
        updates = updates.view(*(1,) * len(wanted)).expand(*wanted)
    if not shape:
        return updates.view().node
    if all(wanted[d] == size or d == dim for d, size in enumerate(shape)) and unexpand(index) is index:
        targets = as_int32(builder, index, 0, shape[dim] - 1)
        return _scattered_lines(data, dim, targets, updates).node
    element = ElementIndex(data, dim, index)
    targets = element.index.view(element.index.numel)
    slices = (*element.shape[: element.axis], *targets.shape, *element.shape[element.axis + 1 :])
    return data.view(*element.shape).put(element.axis, targets, updates.view(*slices)).view(*shape).node


def _scattered_lines(data: Value, dim: int, targets: Value, updates: Value) -> Value:
    """Scatters without dimensions of size 1."""
    kept = [d for d, size in enumerate(data.shape) if size > 1 or d == dim]
    lean, index, updates = (value.view(*(value.shape[d] for d in kept)) for value in (data, targets, updates))
    wide = index.to(torch.int64)
    return lean.scatter(kept.index(dim), wide, updates).view(*data.shape)


def any_of_dim(found: Value, dim: int) -> Value:
    """Whether any element along a dimension is true."""
    shape = [size for each, size in enumerate(found.shape) if each != dim]
    builder = found.builder
    return Value(builder, builder.call(aten.any.dim, found.node, dim, val=builder.empty(shape, torch.bool)))


def _scatter_one_value(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    data, wanted = value_of(builder, bound["self"]), shape_of(bound["index"])
    dim = positive(bound["dim"], data.rank) if data.rank else 0
    if not data.rank or 0 in wanted or wanted[dim] == 1:
        return None
    size, count = data.shape[dim], wanted[dim]
    if math.prod(wanted) * size > MOST_PAIRS:
        return None
    order = [*(each for each in range(data.rank) if each != dim), dim]
    index = as_int32(builder, bound["index"], 0, size - 1).permute(*order)
    outer = math.prod(index.shape[:-1])
    hits = any_of_dim(positions(builder, size, 1, 3).eq(index.view(outer, 1, count)), 2)
    mask = hits.view(*index.shape[:-1], size).permute(*(order.index(each) for each in range(data.rank)))
    # the index may cover a part of the other dimensions
    ends = [end - own for own, end in zip(mask.shape, data.shape, strict=True)]
    if any(ends):
        mask = mask.pad([each for end in reversed(ends) for each in (0, end)], False)
    return mask.where(full(builder, (), bound["value"], data.dtype), data).node


# ---- by sums ---------------------------------------------------------------------------------------------


def _scatter_by_sums(builder: Builder, node: Node) -> Node | None:
    """Adds to zeros the last element of each position: in order, those of one are next to each other."""
    bound, wanted = bind(node), shape_of(bind(node)["index"])
    data, index = value_of(builder, bound["self"]), value_of(builder, bound["index"], torch.int64)
    if (
        not data.rank
        or any(isinstance(size, int) and not size for size in wanted)
        or data.dtype == torch.bool
    ):
        return None
    dim = positive(bound["dim"], data.rank)
    most = largest(wanted[dim])
    if most is None:
        return None
    lines = [data.shape[each] if each == dim else size for each, size in enumerate(wanted)]
    ones = full(builder, wanted, 1, torch.int32)
    mask = _added(lines, dim, index, ones).ne(0)
    if "value" in bound:
        value = full(builder, (), bound["value"], data.dtype)
        return _with_first(data, lines, lambda part: mask.where(value, part)).node
    updates = value_of(builder, bound["src"], data.dtype)
    for each, size in enumerate(wanted):
        updates = updates.slice(each, 0, size)
    if most > 1:
        # no two are equal: the order does not depend on how the target sorts equal elements
        counted = progression(builder, wanted[dim], data.rank - dim - 1).to(torch.int64)
        order = _order(index * most + counted, dim)
        index, updates = (_gathered(each, dim, order) for each in (index, updates))
        after = full(
            builder, [1 if each == dim else size for each, size in enumerate(wanted)], -1, index.dtype
        )
        following = cat([index, after], dim).slice(dim, 1, wanted[dim] + 1)
        updates = index.ne(following).where(updates, 0)
    total = _added(lines, dim, index, updates)
    return _with_first(data, lines, lambda part: mask.where(total, part)).node


def _with_first(data: Value, shape: Sequence[int], change: Callable[[Value], Value]) -> Value:
    """Replaces the first elements of each dimension, of a shape, by what a function makes of them."""
    for dim, (size, own) in enumerate(zip(data.shape, shape, strict=True)):
        if sizes_key([size]) != sizes_key([own]):
            changed = _with_first(data.slice(dim, 0, own), shape, change)
            call, target = data.builder.call, aten.slice_scatter.default
            return Value(
                data.builder, call(target, data.node, changed.node, dim, 0, own, val=data.node.meta["val"])
            )
    return change(data)


def _added(shape: Sequence[int], dim: int, index: Value, updates: Value) -> Value:
    """Returns the sums of updates at each position of a dimension."""
    builder = index.builder
    zeros = full(builder, shape, 0, updates.dtype)
    call = builder.call(aten.scatter_add.default, zeros.node, dim, index.node, updates.node)
    return Value(builder, call)


def _order(x: Value, dim: int) -> Value:
    """Returns the positions of the elements along a dimension in ascending order: int64."""
    builder, vals = x.builder, (x.builder.empty(x.shape, x.dtype), x.builder.empty(x.shape, torch.int64))
    call = builder.call(aten.sort.stable, x.node, val=vals, stable=True, dim=dim, descending=False)
    return Value(builder, builder.call(operator.getitem, call, 1, val=vals[1]))


def _gathered(x: Value, dim: int, index: Value) -> Value:
    return Value(x.builder, x.builder.call(aten.gather.default, x.node, dim, index.node))


FUNCTIONS: FunctionTable = {
    aten.histc.default: _histc,
    aten.index_reduce.default: _index_reduce,
    aten.scatter.reduce: _scatter_with,
    aten.scatter.value_reduce: _scatter_with,
    aten.scatter_reduce.two: _scatter_reduce,
}

REWRITES: Final = (
    Rewrite(
        aten.scatter_add.default,
        _scatter_add,
        (HAS_AXIS, SUMS),
        note="by comparison of each position with each index",
    ),
    *(
        Rewrite(
            target,
            _scatter,
            note="along the dimension if the index has the other sizes of the operand; otherwise by "
            "linear indices into a view",
        )
        for target in (aten.scatter.src, aten.scatter.value)
    ),
)

ONE_VALUE: Final = "one value for positions that may be repeated: by comparison of each"
BY_SUMS: Final = tuple(
    Rewrite(target, _scatter_by_sums, note="by sums: of repeated positions, the last element counts")
    for target in (aten.scatter.src, aten.scatter.value)
)
SCATTER_ONE_VALUE: Final = Rewrite(aten.scatter.value, _scatter_one_value, note=ONE_VALUE)
