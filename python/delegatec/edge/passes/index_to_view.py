# SPDX-License-Identifier: Apache-2.0
"""Indexing by constants that address all elements in order is a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def index_to_view(program: EdgeProgram) -> bool:
    """Replaces `x[i, j, ...]`, with constant indices that enumerate x from first to last, by a view of x.

    transformers builds attention masks this way: mask[arange(batch)[:, None], arange(length)[None, :]].
    """
    found = [node for node in program.graph.nodes if node.target is aten.index.Tensor]
    if not found:
        return False
    builder, constants = Builder(program), program.fixed_constants()
    changed = False
    for node in found:
        if _enumerates(constants, node):
            view = builder.at(node).call(
                aten.view.default, node.args[0], list(shape_of(node)), val=node.meta["val"]
            )
            node.replace_all_uses_with(view)
            program.graph.erase_node(node)
            changed = True
    return changed


def _enumerates(constants: Mapping[str, torch.Tensor], node: Node) -> bool:
    x: Any = node.args[0]
    indices: Any = node.args[1]
    sizes = shape_of(x)
    if len(indices) != len(sizes) or not all(isinstance(size, int) for size in (*sizes, *shape_of(node))):
        return False
    if any(index is None or index.name not in constants for index in indices):
        return False
    values = [constants[index.name] for index in indices]
    # bool, and uint8 of old, are masks
    if any(value.dtype in (torch.bool, torch.uint8) for value in values):
        return False
    position = torch.zeros((), dtype=torch.int64)
    for value, size in zip(values, sizes, strict=True):
        position = position * size + torch.where(value < 0, value + size, value)
    count = node.meta["val"].numel()
    return count == x.meta["val"].numel() and torch.equal(
        position.expand(shape_of(node)).flatten(), torch.arange(count)
    )
