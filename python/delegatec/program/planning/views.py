# SPDX-License-Identifier: Apache-2.0
"""Views without copies: tensors in the memory of another tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.edge.dim_orders import reinterprets
from delegatec.program.planning.assignment import Assignment
from delegatec.program.planning.instructions import slot_of
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

    Mutable buffers have no views, since values read before a write must not change with it; nor have inputs
    in the caller's memory, whose address is unknown.
    """
    source = node.args[0] if node.args else None
    if node in assignment.exchanged:
        return True
    if not isinstance(source, Node) or node.target is call_delegate or source.op == "get_attr":
        return False
    if not all(isinstance(size, int) for size in _sizes(node, source)) or assignment.is_fixed(
        slot_of(source)
    ):
        return False
    if node.target in _RESHAPES or reinterprets(node, assignment.orders):
        return assignment.place_inside(slot_of(node), slot_of(source))
    start = _contiguous_start(node, source)
    if start is None:
        return False
    offset = start * source.meta["val"].element_size()
    return offset % ALIGNMENT == 0 and assignment.place_inside(slot_of(node), slot_of(source), offset)


def _sizes(*nodes: Node) -> Iterator[Any]:
    for node in nodes:
        val = node.meta["val"]
        if isinstance(val, torch.Tensor):
            yield from val.shape


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
