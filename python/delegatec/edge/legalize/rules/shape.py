# SPDX-License-Identifier: Apache-2.0
"""Views, copies of views, permutations and pads."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.value import cat, value_of
from delegatec.edge.symbols import smallest

aten = torch.ops.aten

_VIEWS: Final[dict[OpOverload, OpOverload]] = {
    aten.alias_copy.default: aten.alias.default,
    aten.as_strided_copy.default: aten.as_strided.default,
    aten.detach_copy.default: aten.detach.default,
    aten.diagonal_copy.default: aten.diagonal.default,
    aten.expand_copy.default: aten.expand.default,
    aten.permute_copy.default: aten.permute.default,
    aten.select_copy.int: aten.select.int,
    aten.slice_copy.Tensor: aten.slice.Tensor,
    aten.split_copy.Tensor: aten.split.Tensor,
    aten.split_with_sizes_copy.default: aten.split_with_sizes.default,
    aten.squeeze_copy.default: aten.squeeze.default,
    aten.squeeze_copy.dim: aten.squeeze.dim,
    aten.squeeze_copy.dims: aten.squeeze.dims,
    aten.t_copy.default: aten.t.default,
    aten.transpose_copy.int: aten.transpose.int,
    aten.unbind_copy.int: aten.unbind.int,
    aten.unfold_copy.default: aten.unfold.default,
    aten.unsqueeze_copy.default: aten.unsqueeze.default,
    aten.view_copy.default: aten.view.default,
}


def _view(b: Builder, node: Node) -> Node:
    return b.call(aten.view.default, node.args[0], list(shape_of(node)), val=node.meta["val"])


def _resolve_sizes(b: Builder, node: Node) -> Node | None:
    """Replaces -1 by the inferred size."""
    sizes: Any = node.args[1]
    if -1 not in [size for size in sizes if isinstance(size, int)]:
        return None
    target: Any = node.target
    return b.call(target, node.args[0], list(shape_of(node)), val=node.meta["val"])


def _transpose(b: Builder, node: Node) -> Node:
    x = node.args[0]
    assert isinstance(x, Node)
    order = list(range(len(shape_of(x))))
    if order:
        first, second = (0, -1) if node.target is aten.t.default else node.args[1:] or (-2, -1)
        order[first], order[second] = order[second], order[first]  # type: ignore[index]
    return b.call(aten.permute.default, x, order, val=node.meta["val"])


def _expand(b: Builder, node: Node) -> Node:
    return b.call(aten.expand.default, node.args[0], list(shape_of(node)), val=node.meta["val"])


def _squeeze(b: Builder, node: Node) -> Node:
    x = node.args[0]
    assert isinstance(x, Node)
    rank = len(shape_of(x))
    dims = [d for d in range(rank) if isinstance(shape_of(x)[d], int) and shape_of(x)[d] == 1]
    if node.target is aten.squeeze.dim:
        dims = [d for d in dims if d == node.args[1] % max(rank, 1)]  # type: ignore[operator]
    return b.call(aten.squeeze.dims, x, dims, val=node.meta["val"]) if dims else x


def _positions(b: Builder, node: Node) -> list[Node]:
    """Returns the positions of nonzero elements by dimension; their number keeps its symbol."""
    values = node.meta["val"]
    table = b.empty([*values[0].shape, len(values)], torch.int64)
    found = b.call(aten.nonzero.default, node.args[0], val=table)
    return [b.call(aten.select.int, found, 1, index, val=value) for index, value in enumerate(values)]


def _pad(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["mode"] == "circular":
        amounts = [each.meta["val"] if isinstance(each, Node) else each for each in a["pad"]]
        pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
        # If one end is cropped, the other continues with the rest.
        return None if any(map(_may_crop_one_end, pairs)) else _around(b, a["self"], pairs)
    if a["mode"] != "constant":
        return None
    return b.call(
        aten.constant_pad_nd.default, a["self"], list(a["pad"]), a["value"] or 0.0, val=node.meta["val"]
    )


def _may_crop_one_end(pair: tuple[Any, Any]) -> bool:
    if all(isinstance(each, int) for each in pair):
        return bool(min(pair) < 0 < max(pair))
    return any(smallest(each) < 0 for each in pair)


def _around(b: Builder, x: Node, pairs: Sequence[tuple[int, int]]) -> Node:
    """Extends each dimension circularly, or crops it, from the last dimension to the first."""
    for position, (before, after) in enumerate(pairs):
        dim = len(shape_of(x)) - 1 - position
        size = shape_of(x)[dim]

        def part(start: Any, end: Any, x: Node = x, dim: int = dim) -> Node:
            return b.call(aten.slice.Tensor, x, dim, start, end)

        if smallest(before) < 0 or smallest(after) < 0:
            x = part(-before, size + after)
            continue
        front = [] if _is_zero(before) else [part(size - before, size)]
        back = [] if _is_zero(after) else [part(0, after)]
        if front or back:
            x = b.call(aten.cat.default, [*front, x, *back], dim)
    return x


def _is_zero(amount: Any) -> bool:
    return isinstance(amount, int) and amount == 0


def _as_view(b: Builder, node: Node) -> Node | list[Node]:
    target = node.target
    assert isinstance(target, OpOverload)
    copied = b.call(_VIEWS[target], *bind(node).values(), val=node.meta["val"])
    values = node.meta["val"]
    if not isinstance(values, (list, tuple)):
        return copied
    return [b.call(operator.getitem, copied, index) for index in range(len(values))]


# ---- permutations for targets that limit them ------------------------------------------------------------

_MOST_HALVINGS: Final = 4


def _runs(shape: tuple[int, ...], order: list[int]) -> list[list[int]]:
    """Returns the dimensions that stay adjacent, in the order of the result."""
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
    """Permutes without dimensions of size 1, and merges dimensions that stay adjacent."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    runs = _runs(x.shape, [positive(dim, x.rank) for dim in bound["dims"]])
    if len(runs) == x.rank:
        return None
    sorted_runs = sorted(range(len(runs)), key=lambda run: runs[run][0])
    few = x.view(*(math.prod(x.shape[dim] for dim in runs[run]) for run in sorted_runs))
    return few.permute(*(sorted_runs.index(run) for run in range(len(runs)))).view(*shape_of(node)).node


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
    """Returns the depth of nested slices of a value, up to the most."""
    count = 0
    while count < _MOST_HALVINGS and node.target is aten.slice.Tensor:
        count += 1
        node = node.all_input_nodes[0]
    return count


RULES: RuleTable = {
    **dict.fromkeys(_VIEWS, _as_view),
    **dict.fromkeys(
        (
            aten._reshape_alias.default,
            aten._unsafe_view.default,
            aten.flatten.using_ints,
            aten.reshape.default,
            aten.reshape_as.default,
            aten.unflatten.int,
            aten.view_as.default,
        ),
        _view,
    ),
    **dict.fromkeys((aten.expand.default, aten.view.default), _resolve_sizes),
    **dict.fromkeys((aten.mT.default, aten.t.default, aten.transpose.int), _transpose),
    **dict.fromkeys((aten.squeeze.default, aten.squeeze.dim), _squeeze),
    aten.expand_as.default: _expand,
    aten.pad.default: _pad,
    aten.where.default: _positions,
}

PERMUTE_JOINED: Final = Rewrite(
    aten.permute.default, _joined, computes=False, note="of lower rank, with merged dimensions"
)
PERMUTE_HALVES: Final = Rewrite(
    aten.permute.default, _halves, computes=False, note="in parts along the largest dimension"
)
