# SPDX-License-Identifier: Apache-2.0
"""Dynamic sizes: tensors have memory for the upper bounds."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from delegatec.edge.arguments import tensors
from delegatec.edge.symbols import is_dynamic, largest


def largest_shape(value: Any) -> tuple[int, ...]:
    """Returns the upper bounds of the sizes of a tensor; its sizes, if these are static."""
    if not is_dynamic(value.shape):
        return tuple(value.shape)
    sizes = [largest(size) for size in value.shape]
    assert None not in sizes, "a tensor without upper bounds was accepted"
    return tuple(sizes)  # type: ignore[arg-type]


def shape_of(node: Node) -> tuple[int, ...]:
    """Returns the sizes of a node's value, or their upper bounds."""
    return largest_shape(node.meta["val"])


def has_dynamic_size(node: Node) -> bool:
    """Whether an operand or result of a call has dynamic sizes."""
    values = [each.meta.get("val") for each in (*node.all_input_nodes, node)]
    return any(is_dynamic(tensor.shape) for value in values for tensor in tensors(value))
