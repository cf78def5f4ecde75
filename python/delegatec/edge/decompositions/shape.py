# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements, in terms of view, permute, expand, slice, squeeze, unsqueeze and cat."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype, shape
from delegatec.edge.builder import Builder
from delegatec.edge.decompositions.rule import RuleTable

aten = torch.ops.aten


def _view(b: Builder, node: Node) -> Node:
    return b.call(aten.view.default, node.args[0], list(shape(node)), val=node.meta["val"])


def _resolve_sizes(b: Builder, node: Node) -> Node | None:
    """Writes sizes out where -1 stands for one."""
    sizes: Any = node.args[1]
    if -1 not in [size for size in sizes if isinstance(size, int)]:
        return None
    target: Any = node.target
    return b.call(target, node.args[0], list(shape(node)), val=node.meta["val"])


def _transpose(b: Builder, node: Node) -> Node:
    x = node.args[0]
    assert isinstance(x, Node)
    order = list(range(len(shape(x))))
    if order:
        first, second = (0, -1) if node.target is aten.t.default else (node.args[1], node.args[2])
        order[first], order[second] = order[second], order[first]  # type: ignore[index]
    return b.call(aten.permute.default, x, order, val=node.meta["val"])


def _expand(b: Builder, node: Node) -> Node:
    return b.call(aten.expand.default, node.args[0], list(shape(node)), val=node.meta["val"])


def _squeeze(b: Builder, node: Node) -> Node:
    x = node.args[0]
    assert isinstance(x, Node)
    rank = len(shape(x))
    dims = [d for d in range(rank) if isinstance(shape(x)[d], int) and shape(x)[d] == 1]
    if node.target is aten.squeeze.dim:
        dims = [d for d in dims if d == node.args[1] % max(rank, 1)]  # type: ignore[operator]
    return b.call(aten.squeeze.dims, x, dims, val=node.meta["val"]) if dims else x


def _split(b: Builder, node: Node) -> list[Node]:
    a = bind(node)
    x = a["self"]
    dim = a["dim"] % len(shape(x))
    pieces, start = [], 0
    for val in node.meta["val"]:
        end = start + val.shape[dim]
        pieces.append(b.call(aten.slice.Tensor, x, dim, start, end))
        start = end
    return pieces


def _unbind(b: Builder, node: Node) -> list[Node]:
    a = bind(node)
    dim = a["dim"] % len(shape(a["self"]))
    return [b.call(aten.select.int, a["self"], dim, index) for index in range(len(node.meta["val"]))]


def _stack(b: Builder, node: Node) -> Node:
    a = bind(node)
    dim = a["dim"] % len(shape(node))
    return b.call(aten.cat.default, [b.call(aten.unsqueeze.default, x, dim) for x in a["tensors"]], dim)


def _pad(b: Builder, node: Node) -> Node | None:
    a = bind(node)
    if a["mode"] != "constant":
        return None
    return b.call(
        aten.constant_pad_nd.default, a["self"], list(a["pad"]), a["value"] or 0.0, val=node.meta["val"]
    )


def _full(b: Builder, node: Node, number: Any) -> Node:
    return b.call(aten.full.default, list(shape(node)), number, dtype=dtype(node), val=node.meta["val"])


def _filled(b: Builder, node: Node) -> Node:
    return _full(b, node, bind(node)["fill_value"])


def _ones(b: Builder, node: Node) -> Node:
    return _full(b, node, 1)


def _zeros(b: Builder, node: Node) -> Node:
    return _full(b, node, 0)


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
    **dict.fromkeys((aten.t.default, aten.transpose.int), _transpose),
    **dict.fromkeys((aten.squeeze.default, aten.squeeze.dim), _squeeze),
    **dict.fromkeys(
        (aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default, aten.split.sizes), _split
    ),
    aten.expand_as.default: _expand,
    aten.pad.default: _pad,
    aten.stack.default: _stack,
    aten.unbind.int: _unbind,
    **dict.fromkeys((aten.full_like.default, aten.new_full.default), _filled),
    **dict.fromkeys((aten.ones.default, aten.ones_like.default, aten.new_ones.default), _ones),
    # what memory happens to hold would make a folded constant, and so the file, another one at each build
    **dict.fromkeys(
        (
            aten.empty.memory_format,
            aten.empty_like.default,
            aten.empty_permuted.default,
            aten.empty_strided.default,
            aten.new_empty.default,
            aten.new_empty_strided.default,
            aten.new_zeros.default,
            aten.zeros.default,
            aten.zeros_like.default,
        ),
        _zeros,
    ),
}
