# SPDX-License-Identifier: Apache-2.0
"""The arguments of a call by name, with the schema's defaults filled in, and the shapes of values."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node


def bind(node: Node) -> dict[str, Any]:
    """Every argument of the operator that `node` calls, by its name in the schema, in the schema's order."""
    assert isinstance(node.target, OpOverload)
    bound: dict[str, Any] = {}
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            bound[argument.name] = node.args[position]
        elif argument.name in node.kwargs:
            bound[argument.name] = node.kwargs[argument.name]
        else:
            bound[argument.name] = argument.default_value if argument.has_default_value() else None
    return bound


def writes(node: Node) -> bool:
    """Whether `node` calls an operator that writes to one of its arguments."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def shape(node: Node) -> tuple[int, ...]:
    """Sizes of the tensor that `node` stands for; symbolic where a dimension is dynamic."""
    return tuple(node.meta["val"].shape)


def dtype(node: Node) -> Any:
    """The torch.dtype of the tensor that `node` stands for."""
    return node.meta["val"].dtype


def broadcast(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which several broadcast; sizes may be symbolic."""
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
