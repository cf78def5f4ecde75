# SPDX-License-Identifier: Apache-2.0
"""Replaces indexing by constants that address all elements in order by a view."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def index_to_view(program: EdgeProgram) -> bool:
    """Replaces `x[i, j, ...]`, with constant indices that enumerate x from first to last, by a view of x.

    transformers builds attention masks this way: mask[arange(batch)[:, None], arange(length)[None, :]].
    """
    return rewrite(program, {aten.index.Tensor: _view})


def _view(b: Builder, node: Node) -> Node | None:
    x: Any = node.args[0]
    if not _enumerates(b, node, x, node.args[1]):
        return None
    return b.call(aten.view.default, x, list(shape_of(node)), val=node.meta["val"])


def _enumerates(b: Builder, node: Node, x: Node, indices: Any) -> bool:
    sizes = shape_of(x)
    if len(indices) != len(sizes) or not all(isinstance(size, int) for size in (*sizes, *shape_of(node))):
        return False
    values: list[Any] = [None if index is None else b.facts.constant(index) for index in indices]
    # bool, and legacy uint8, are masks
    if any(value is None or value.dtype in (torch.bool, torch.uint8) for value in values):
        return False
    position = torch.zeros((), dtype=torch.int64)
    for value, size in zip(values, sizes, strict=True):
        position = position * size + torch.where(value < 0, value + size, value)
    count = node.meta["val"].numel()
    return count == x.meta["val"].numel() and torch.equal(
        position.expand(shape_of(node)).flatten(), torch.arange(count)
    )
