# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls by name, including defaults, and shapes of values."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node


def bind(node: Node) -> dict[str, Any]:
    """Returns all arguments of the call `node` by their names in the operator's schema, in its order."""
    assert isinstance(node.target, OpOverload)
    names, defaults = _parameters(node.target)
    return {**defaults, **dict(zip(names, node.args, strict=False)), **node.kwargs}


@cache
def _parameters(operator: OpOverload) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Returns the names of positional arguments, and the defaults of all arguments."""
    arguments = operator._schema.arguments
    return tuple(each.name for each in arguments if not each.kwarg_only), {
        each.name: each.default_value if each.has_default_value() else None for each in arguments
    }


def writes(node: Node) -> bool:
    """Whether `node` calls an operator that writes to an argument."""
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def shape(node: Node) -> tuple[int, ...]:
    """Returns the sizes of a tensor; dynamic dimensions are symbolic."""
    return tuple(node.meta["val"].shape)


def dtype(node: Node) -> Any:
    """Returns the torch.dtype of a tensor."""
    return node.meta["val"].dtype


def broadcast(*shapes: Any) -> tuple[Any, ...]:
    """Returns the shape that several shapes broadcast to; sizes may be symbolic."""
    return tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
