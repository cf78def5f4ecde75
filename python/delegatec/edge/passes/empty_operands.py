# SPDX-License-Identifier: Apache-2.0
"""Removes empty tensors from concatenations."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def remove_empty_operands(program: EdgeProgram) -> bool:
    """Removes empty operands of `cat`, and the call if one operand remains.

    Caches are initially empty, and so is the part of a head that rotary embeddings do not rotate, if they
    rotate all of it. Delegates do not support empty tensors.
    """
    return rewrite(program, {aten.cat.default: _without_empty})


def _without_empty(b: Builder, node: Node) -> Node | None:
    operands: list[Node] = bind(node)["tensors"]
    kept = [operand for operand in operands if not _is_empty(operand)]
    if not kept or len(kept) == len(operands):
        return None
    if len(kept) == 1:
        return _converted(b, kept[0], node)
    if _promoted(kept) != dtype_of(node):
        return None
    node.update_arg(0, kept)
    return node


def _is_empty(operand: Node) -> bool:
    return any(isinstance(size, int) and size == 0 for size in shape_of(operand))


def _promoted(operands: list[Node]) -> Any:
    found = dtype_of(operands[0])
    for operand in operands[1:]:
        found = torch.promote_types(found, dtype_of(operand))
    return found


def _converted(builder: Builder, operand: Node, node: Node) -> Node:
    if dtype_of(operand) == dtype_of(node):
        return operand
    return builder.call(aten._to_copy.default, operand, dtype=dtype_of(node))
