# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements, as view, permute, expand, slice, squeeze, unsqueeze and cat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable

aten = torch.ops.aten


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


def _split(b: Builder, node: Node) -> list[Node]:
    a = bind(node)
    x = a["self"]
    dim = a["dim"] % len(shape_of(x))
    pieces, start = [], 0
    for val in node.meta["val"]:
        end = start + val.shape[dim]
        pieces.append(b.call(aten.slice.Tensor, x, dim, start, end))
        start = end
    return pieces


def _unbind(b: Builder, node: Node) -> list[Node]:
    a = bind(node)
    dim = a["dim"] % len(shape_of(a["self"]))
    return [b.call(aten.select.int, a["self"], dim, index) for index in range(len(node.meta["val"]))]


def _positions(b: Builder, node: Node) -> list[Node]:
    """Returns the positions of nonzero elements by dimension; their number keeps its symbol."""
    values = node.meta["val"]
    table = b.empty([*values[0].shape, len(values)], torch.int64)
    found = b.call(aten.nonzero.default, node.args[0], val=table)
    return [b.call(aten.select.int, found, 1, index, val=value) for index, value in enumerate(values)]


def _stack(b: Builder, node: Node) -> Node:
    a = bind(node)
    dim = a["dim"] % len(shape_of(node))
    return b.call(aten.cat.default, [b.call(aten.unsqueeze.default, x, dim) for x in a["tensors"]], dim)


def _pad(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["mode"] == "circular":
        pairs = list(zip(a["pad"][::2], a["pad"][1::2], strict=True))
        # If one end is cropped, the other continues with the rest.
        return None if any(min(pair) < 0 < max(pair) for pair in pairs) else _around(b, a["self"], pairs)
    if a["mode"] != "constant":
        return None
    value = a["value"] or 0.0
    if dtype_of(node) == torch.bool:
        value = float(value != 0)  # delegates take truth values for numbers
    return b.call(aten.constant_pad_nd.default, a["self"], list(a["pad"]), value, val=node.meta["val"])


def _around(b: Builder, x: Node, pairs: Sequence[tuple[int, int]]) -> Node:
    """Extends each dimension circularly, or crops it, from the last dimension to the first."""
    for position, (before, after) in enumerate(pairs):
        dim = len(shape_of(x)) - 1 - position
        size = shape_of(x)[dim]

        def part(start: Any, end: Any, x: Node = x, dim: int = dim) -> Node:
            return b.call(aten.slice.Tensor, x, dim, start, end)

        if min(before, after) < 0:
            x = part(-before, size + after)
        elif max(before, after) > 0:
            front = [part(size - before, size)] if before else []
            x = b.call(aten.cat.default, [*front, x, *([part(0, after)] if after else [])], dim)
    return x


def _select_scatter(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    size, index = shape_of(a["self"])[a["dim"]], a["index"]
    if not isinstance(index, int) or (index < 0 and not isinstance(size, int)):
        return None
    start = index + size if index < 0 else index
    dim = a["dim"] % len(shape_of(node))
    update = b.call(aten.unsqueeze.default, a["src"], dim)
    return b.call(aten.slice_scatter.default, a["self"], update, dim, start, start + 1, val=node.meta["val"])


def _roll(b: Builder, node: Node) -> Node | None:
    """Moves the last elements of a dimension before the others; without dimensions, the kernel flattens."""
    a = bind(node)
    x, shifts = a["self"], list(a["shifts"])
    dims = [dim % len(shape_of(node)) for dim in a["dims"]]
    sizes = [shape_of(node)[dim] for dim in dims]
    if not dims or 0 in shape_of(node) or not all(isinstance(n, int) for n in (*shifts, *sizes)):
        return None
    for dim, size, shift in zip(dims, sizes, shifts, strict=True):
        cut = -shift % size
        if cut:
            parts = [b.call(aten.slice.Tensor, x, dim, *ends) for ends in ((cut, size), (0, cut))]
            x = b.call(aten.cat.default, parts, dim)
    rolled: Node = x
    return rolled


def _unfold(b: Builder, node: Node) -> Node | None:
    """Unfolds 0-d tensors, for which the kernel aborts; others use the kernel."""
    x = node.args[0]
    assert isinstance(x, Node)
    return None if shape_of(x) else b.call(aten.view.default, x, list(shape_of(node)), val=node.meta["val"])


def _pixel_unshuffle(b: Builder, node: Node) -> Node:
    x, factor = node.args
    assert isinstance(x, Node) and isinstance(factor, int)
    *outer, channels, _, _ = shape_of(x)
    height, width = shape_of(node)[-2:]
    blocks = b.call(aten.view.default, x, [*outer, channels, height, factor, width, factor])
    n = len(outer)
    moved = b.call(aten.permute.default, blocks, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return b.call(aten.view.default, moved, list(shape_of(node)), val=node.meta["val"])


RULES: RuleTable = {
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
    **dict.fromkeys(
        (aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes), _split
    ),
    aten.expand_as.default: _expand,
    aten.pad.default: _pad,
    aten.pixel_unshuffle.default: _pixel_unshuffle,
    aten.roll.default: _roll,
    aten.select_scatter.default: _select_scatter,
    aten.stack.default: _stack,
    aten.unfold.default: _unfold,
    aten.unbind.int: _unbind,
    aten.where.default: _positions,
}
