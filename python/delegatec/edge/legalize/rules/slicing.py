# SPDX-License-Identifier: Apache-2.0
"""Parts of tensors, and their arrangement in another order, by slices, views and concatenation."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rule import Refusal, Rewrite, RuleTable
from delegatec.edge.legalize.rules.indices import progression
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.value import cat, table, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


def _split(builder: Builder, node: Node) -> list[Node | None]:
    bound, val = bind(node), node.meta["val"]
    x, start = value_of(builder, bound["self"]), 0
    dim = positive(bound["dim"], x.rank)
    parts: list[Node | None] = []
    for size in (each.shape[dim] for each in val):
        parts.append(x.slice(dim, start, start + size).node)
        start += size
    return parts


def _dynamic_split(builder: Builder, node: Node) -> list[Node | None] | None:
    return _split(builder, node) if is_dynamic(shape_of(bind(node)["self"])) else None


def _unbind(b: Builder, node: Node) -> list[Node]:
    a = bind(node)
    dim = a["dim"] % len(shape_of(a["self"]))
    return [b.call(aten.select.int, a["self"], dim, index) for index in range(len(node.meta["val"]))]


def _stack(b: Builder, node: Node) -> Node:
    a = bind(node)
    dim = a["dim"] % len(shape_of(node))
    return b.call(aten.cat.default, [b.call(aten.unsqueeze.default, x, dim) for x in a["tensors"]], dim)


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


def _static_roll(builder: Builder, node: Node) -> Node | None:
    """Rolls dimensions of static sizes; the kernel rolls others, and flattens if there are no dimensions."""
    bound, shape = bind(node), shape_of(node)
    sizes = [shape[dim] for dim in bound["dims"]]
    is_static = all(isinstance(each, int) for each in (*bound["shifts"], *sizes))
    return _roll(builder, node) if sizes and 0 not in shape and is_static else None


def _repeat(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x, repeats = value_of(builder, bound["self"]), bound["repeats"]
    shape = (1,) * (len(repeats) - x.rank) + x.shape
    # A new dimension for each repeated one; those between are merged, as targets limit their number.
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


def _pixel_unshuffle(b: Builder, node: Node) -> Node:
    x, factor = node.args
    assert isinstance(x, Node) and isinstance(factor, int)
    *outer, channels, _, _ = shape_of(x)
    height, width = shape_of(node)[-2:]
    blocks = b.call(aten.view.default, x, [*outer, channels, height, factor, width, factor])
    n = len(outer)
    moved = b.call(aten.permute.default, blocks, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return b.call(aten.view.default, moved, list(shape_of(node)), val=node.meta["val"])


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


def _lower_triangle_by_constant(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x = value_of(builder, bound["self"])
    kept = torch.ones(x.shape[-2:], dtype=torch.bool).tril(bound["diagonal"])
    return table(builder, kept).where(x, False if x.dtype == torch.bool else 0).node


def _neighbors(builder: Builder, node: Node) -> Node | None:
    """Takes the first of each group of `step` elements."""
    bound = bind(node)
    x, step = value_of(builder, bound["self"]), bound["step"]
    dim = positive(bound["dim"], x.rank)
    size, count = x.shape[dim], shape_of(node)[dim]
    if step == 1 or not all(isinstance(each, (int, type(None))) for each in (*bound.values(), size)[1:]):
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


def _narrow(b: Builder, node: Node) -> Node:
    """Slices from a position that may be negative, at which the kernel aborts."""
    a = bind(node)
    x, dim, start = a["self"], a["dim"] % len(shape_of(a["self"])), a["start"]
    if isinstance(start, int) and start < 0:
        start = shape_of(x)[dim] + start
    return b.call(aten.slice.Tensor, x, dim, start, start + a["length"], val=node.meta["val"])


def _unfold_scalar(b: Builder, node: Node) -> Node | None:
    """Unfolds 0-d tensors, for which the kernel aborts; others use the kernel."""
    x = node.args[0]
    assert isinstance(x, Node)
    return None if shape_of(x) else b.call(aten.view.default, x, list(shape_of(node)), val=node.meta["val"])


def _unfold(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x, size, step = value_of(builder, bound["self"]), bound["size"], bound["step"]
    dim = positive(bound["dimension"], x.rank)
    count = shape_of(node)[dim]
    if size == step:  # The windows are adjacent.
        windows = x.slice(dim, 0, count * size).view(*x.shape[:dim], count, size, *x.shape[dim + 1 :])
    else:
        start = progression(builder, count, 1, step=step)
        windows = x.take(dim, (start + progression(builder, size)).within(0, x.shape[dim] - 1))
    order = [d for d in range(x.rank + 1) if d != dim + 1] + [dim + 1]
    return windows.permute(*order).node


_MOST_SLICES: Final = 64
_VARYING: Final = Refusal("dynamic-shape", "the number of windows is dynamic")
_TOO_MANY: Final = Refusal("argument", f"the windows need more than {_MOST_SLICES} slices")


def _unfold_by_slices(builder: Builder, node: Node) -> Node | Refusal | None:
    """Slices one part of all windows at a time, or one window; a part is as large as size and step permit."""
    bound = bind(node)
    x, size, step = value_of(builder, bound["self"]), bound["size"], bound["step"]
    dim = positive(bound["dimension"], x.rank)
    count = shape_of(node)[dim]
    if size == step:
        return None  # the windows are adjacent: the shared rule needs one slice
    if not isinstance(x.shape[dim], int):
        return _VARYING
    part = math.gcd(size, step)
    parts, stride = size // part, step // part
    if min(parts, count) > _MOST_SLICES:
        return _TOO_MANY
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    rows, width = math.prod(before), math.prod(after)
    x = x.view(rows, x.shape[dim], width)
    if parts <= count:
        used = (count - 1) * step + size
        blocks = x.slice(1, 0, used).view(rows, used // part, part * width)
        found = [blocks.slice(1, n, n + (count - 1) * stride + 1, stride) for n in range(parts)]
        windows = cat([each.view(rows, count, 1, part * width) for each in found], 2)
    else:
        found = [x.slice(1, n * step, n * step + size) for n in range(count)]
        windows = cat([each.view(rows, 1, size, width) for each in found], 1)
    order = [d for d in range(len(before) + len(after) + 2) if d != dim + 1] + [dim + 1]
    return windows.view(*before, count, size, *after).permute(*order).node


RULES: RuleTable = {
    aten.narrow_copy.default: _narrow,
    **dict.fromkeys(
        (aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes), _split
    ),
    aten.pixel_unshuffle.default: _pixel_unshuffle,
    aten.roll.default: _static_roll,
    aten.stack.default: _stack,
    aten.unbind.int: _unbind,
    aten.unfold.default: _unfold_scalar,
}

REWRITES: Final = (
    Rewrite(
        aten.diagonal.default, _diagonal, note="a slice of rows and columns as one dimension", computes=False
    ),
    Rewrite(aten.unfold.default, _unfold, (HAS_AXIS,), computes=False),
    Rewrite(aten.tril.default, _lower_triangle, computes=False),
    Rewrite(aten.roll.default, _roll, (HAS_AXIS,), computes=False),
    Rewrite(aten.repeat.default, _repeat, computes=False),
    Rewrite(aten.pixel_shuffle.default, _pixel_shuffle, note="images as one batch", computes=False),
)

TRIANGLE_BY_CONSTANT: Final = Rewrite(
    aten.tril.default, _lower_triangle_by_constant, note="a selection by a constant", computes=False
)
SPLIT_BY_SLICES: Final = Rewrite(aten.split_with_sizes.default, _split, computes=False)
DYNAMIC_SPLIT_BY_SLICES: Final = Rewrite(aten.split_with_sizes.default, _dynamic_split, computes=False)
STRIDED_SLICE_BY_GROUPS: Final = Rewrite(
    aten.slice.Tensor, _neighbors, computes=False, note="steps as slices of groups"
)
UNFOLD_BY_SLICES: Final = Rewrite(
    aten.unfold.default,
    _unfold_by_slices,
    (HAS_AXIS,),
    computes=False,
    note="a slice for each part of a window",
)
