# SPDX-License-Identifier: Apache-2.0
"""Views without copies: tensors in the memory of another tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.edge.arguments import bind
from delegatec.edge.dim_orders import DimOrder, reinterprets
from delegatec.edge.symbols import sizes_key
from delegatec.program.planning.assignment import Assignment
from delegatec.program.planning.instructions import Source, slot_of
from delegatec.program.planning.memory_plan import ALIGNMENT

aten = torch.ops.aten

_RESHAPES: Final = frozenset(
    {
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.view.default,
    }
)


def place_view(assignment: Assignment, node: Node) -> bool:
    """Places `node` in its operand's memory if it is a view that needs no copy.

    A mutable buffer has views only where nothing reads them after the next write to it, see
    `views_of_state`; inputs in the caller's memory, whose address is unknown, have none.
    """
    source = node.args[0] if node.args else None
    if node in assignment.exchanged:
        return True
    if not isinstance(source, Node) or node.target is call_delegate or source.op == "get_attr":
        return False
    if assignment.is_fixed(slot_of(source)) and node not in assignment.result.state_views:
        return False
    offset = offset_in_operand(node, assignment.orders)
    if offset is None or not (is_static(node) or node in assignment.result.state_views):
        return False
    return assignment.place_inside(slot_of(node), slot_of(source), offset)


def offset_in_operand(node: Node, orders: Mapping[Node, DimOrder]) -> int | None:
    """Returns where the bytes of a call's result start in its first operand; None if they are not in it.

    Args:
        node: a call.
        orders: of the tensors that are not row-major.
    """
    source = node.args[0] if node.args else None
    if not isinstance(source, Node) or not isinstance(source.meta.get("val"), torch.Tensor):
        return None
    if not is_static(source) or (not is_static(node) and prefix_sizes(node) is None):
        return None
    if node.target in _RESHAPES or reinterprets(node, orders):
        return 0
    start = _contiguous_start(node, source)
    if start is None:
        return None
    offset = int(start * source.meta["val"].element_size())
    return offset if offset % ALIGNMENT == 0 else None


def prefix_sizes(node: Node) -> tuple[Source, ...] | None:
    """Returns the sizes of the first rows of a tensor, of which a scalar is the number; None otherwise."""
    if node.target is not aten.slice.Tensor:
        return None
    bound, shape = bind(node), node.meta["val"].shape
    dim, end = bound["dim"] % len(shape), bound["end"]
    if bound["start"] not in (None, 0) or not isinstance(end, Node):
        return None
    if sizes_key(shape[dim : dim + 1]) != sizes_key([end.meta["val"]]):
        return None
    return tuple(slot_of(end) if other == dim else size for other, size in enumerate(shape))


def is_static(node: Node) -> bool:
    """Whether the sizes of a value are the same in all calls."""
    val = node.meta["val"]
    return not isinstance(val, torch.Tensor) or all(isinstance(size, int) for size in val.shape)


def _contiguous_start(node: Node, source: Node) -> int | None:
    """Returns the first element of a slice or select of adjacent elements; None otherwise."""
    if node.target not in (aten.select.int, aten.slice.Tensor):
        return None
    shape = source.meta["val"].shape
    dim: Any = node.args[1] if len(node.args) > 1 else 0
    dim %= len(shape)
    start: Any = node.args[2] if len(node.args) > 2 else 0
    step: Any = node.args[4] if len(node.args) > 4 else 1
    if step != 1 or not isinstance(start, int | None) or math.prod(shape[:dim]) != 1:
        return None
    start = 0 if start is None else min(max(start + shape[dim] if start < 0 else start, 0), shape[dim])
    return int(start * math.prod(shape[dim + 1 :]))
