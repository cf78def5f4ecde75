# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that are not row-major, and permutations that have the same bytes as their operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import positive
from delegatec.edge.program import EdgeProgram

# Copies a tensor to another order. All tensors of an edge program are contiguous: emission alone calls it.
REORDERS: Final = torch.ops.aten.contiguous.default

DimOrder = tuple[int, ...]
"""The dimensions of a tensor from outermost to innermost in memory."""


def caller_orders(program: EdgeProgram) -> dict[Node, DimOrder]:
    """Returns the inputs and outputs that are not row-major -> their orders."""
    orders = {
        node: program.dim_orders[node.name]
        for node in program.user_inputs()
        if node.name in program.dim_orders
    }
    results = program.user_outputs() if program.output_orders else []
    for position, order in program.output_orders.items():
        orders.setdefault(results[position], order)
    return orders


def reinterprets(node: Node, orders: Mapping[Node, DimOrder]) -> bool:
    """Whether a call permutes a tensor that is not row-major to one that is, or back, without moving bytes.

    Args:
        node: the call.
        orders: of the tensors that are not row-major.
    """
    if node.target is not torch.ops.aten.permute.default:
        return False
    source: Any = node.args[0]
    dims: Any = node.args[1]
    moved = tuple(positive(dim, len(dims)) for dim in dims)
    if source in orders:
        return node not in orders and moved == orders[source]
    return node in orders and inverse(moved) == orders[node]


def inverse(dims: Sequence[int]) -> DimOrder:
    """Returns the inverse of a permutation."""
    return tuple(dims.index(dim) for dim in range(len(dims)))
