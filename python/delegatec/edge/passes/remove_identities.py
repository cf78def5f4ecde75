# SPDX-License-Identifier: Apache-2.0
"""Removes identities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.passes.redirect import redirect
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten


def _always(_program: EdgeProgram, _node: Node) -> bool:
    return True


def _at_inference(_program: EdgeProgram, node: Node) -> bool:
    probability, train = node.args[1], node.args[2]
    return train is False or (isinstance(probability, float) and probability == 0)


def _same_shape(_program: EdgeProgram, node: Node) -> bool:
    return sizes_key(node.meta["val"]) == sizes_key(_first(node).meta["val"])


def _same_dtype(_program: EdgeProgram, node: Node) -> bool:
    return bool(dtype_of(node) == dtype_of(_first(node)))


def _no_move(_program: EdgeProgram, node: Node) -> bool:
    order: Any = node.args[1]
    rank = len(order)
    return [dim % rank for dim in order] == list(range(rank))


def _no_padding(_program: EdgeProgram, node: Node) -> bool:
    amounts: Any = node.args[1]
    return all(amount == 0 for amount in amounts)


def _no_flip(_program: EdgeProgram, node: Node) -> bool:
    """Whether all dimensions that are flipped have one element; torch takes dimension 0 of scalars, too."""
    dims: Any = node.args[1]
    shape = shape_of(_first(node))
    return not shape or all(isinstance(shape[dim], int) and shape[dim] == 1 for dim in dims)


# Operator -> the condition under which its result is its first argument. The shape decides for slices and
# views: a slice that keeps every size keeps every element, and the edge program does not have strides.
_IDENTITIES: Final[dict[Any, Callable[[EdgeProgram, Node], bool]]] = {
    aten._to_copy.default: _same_dtype,
    aten.alias.default: _always,
    aten.clone.default: _always,
    aten.constant_pad_nd.default: _no_padding,
    aten.contiguous.default: _always,
    aten.detach.default: _always,
    aten.detach_.default: _always,
    aten.dropout.default: _at_inference,
    aten.dropout_.default: _at_inference,
    aten.expand.default: _same_shape,
    aten.flip.default: _no_flip,
    aten.lift_fresh_copy.default: _always,
    aten.permute.default: _no_move,
    aten.slice.Tensor: _same_shape,
    aten.view.default: _same_shape,
}

UNCONDITIONAL: Final = frozenset(target for target, holds in _IDENTITIES.items() if holds is _always)
"""The operators that are always identities."""


def is_identity(program: EdgeProgram, node: Node) -> bool:
    """Whether the result of a node is its first argument."""
    holds = _IDENTITIES.get(node.target)
    return holds is not None and holds(program, node)


def remove_identities(program: EdgeProgram) -> bool:
    """Replaces each call that is an identity by its argument."""
    return redirect({node: _first(node) for node in program.graph.nodes if is_identity(program, node)})


def _first(node: Node) -> Node:
    first = node.args[0]
    assert isinstance(first, Node)
    return first
