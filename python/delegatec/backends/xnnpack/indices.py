# SPDX-License-Identifier: Apache-2.0
"""Floating-point calls that compute indices, which stay outside of delegates.

The bucket of a relative position is an integer that a logarithm computes from integers. A delegate for the
logarithm alone would separate the consumers of the bucket from everything else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, tensors
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten


def computes_indices(nodes: Sequence[Node], constants: dict[str, torch.Tensor]) -> bool:
    """Whether calls map integers to integers element by element, and a later value is floating-point.

    Args:
        nodes: calls that no other call of a delegate is connected to.
        constants: those of the program, by name.
    """
    members = {*nodes}
    if not all(_is_pointwise(node) for node in nodes):
        return False
    sources = {each for node in nodes for each in node.all_input_nodes} - members
    dynamic = [each for each in sources if each.name not in constants and not is_scalar(each)]
    if not dynamic or not all(_converts(each, from_integers=True) for each in dynamic):
        return False
    users = {each for node in nodes for each in node.users} - members
    return all(_converts(each, from_integers=False) for each in users) and _reaches_floats(users)


def _is_pointwise(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags


def _converts(node: Node, *, from_integers: bool) -> bool:
    """Whether a call converts from integers to floats, or the other way around."""
    if node.target is not aten._to_copy.default:
        return False
    integer, floating = dtype_of(bind(node)["self"]), dtype_of(node)
    if not from_integers:
        integer, floating = floating, integer
    return floating.is_floating_point and integer in (torch.int32, torch.int64)


def _reaches_floats(nodes: set[Node]) -> bool:
    """Whether a value that follows from calls is floating-point, such as a row of an embedding."""
    pending, seen = list(nodes), {*nodes}
    while pending:
        node = pending.pop()
        if any(each.dtype.is_floating_point for each in tensors(node.meta.get("val"))):
            return True
        new = node.users.keys() - seen
        seen |= new
        pending += new
    return False
