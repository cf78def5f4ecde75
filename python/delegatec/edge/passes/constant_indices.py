# SPDX-License-Identifier: Apache-2.0
"""Replaces constant indices along one dimension by slices, or by nonnegative indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.new_constants import NewConstants
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def resolve_constant_indices(program: EdgeProgram) -> bool:
    """Replaces `x[..., [-2], :]` by a slice of x, and negative indices by nonnegative ones.

    Delegates gather with indices from 0 on; only ATen supports negative indices.
    """
    nodes = [node for node in program.graph.nodes if node.target is aten.index.Tensor]
    if not nodes:
        return False
    builder, constants, made = Builder(program), program.fixed_constants(), NewConstants(program)
    positive: dict[Node, Node] = {}
    changed = False
    for node in nodes:
        found = _constant_index(constants, node)
        if found is None:
            continue
        x, dim, index, given = found
        size = shape_of(x)[dim]
        values = torch.where(given < 0, given + size, given)
        step = _step(values)
        if step is not None and values[0] >= 0 and values[-1] < size:
            ends = (int(values[0]), int(values[-1]) + 1)
            result = builder.at(node).call(aten.slice.Tensor, x, dim, *ends, step)
            node.replace_all_uses_with(result)
            program.graph.erase_node(node)
            changed = True
        elif bool((given < 0).any()):
            if index not in positive:
                positive[index] = made.add(f"{made.names[index.name]}.positive", values, index)
            indices: Any = node.args[1]
            node.update_arg(1, [positive[index] if item is index else item for item in indices])
            changed = True
    made.declare()
    return changed


def _constant_index(
    constants: Mapping[str, torch.Tensor], node: Node
) -> tuple[Node, int, Node, torch.Tensor] | None:
    """Returns the indexed tensor, the dimension, the constant index and its value; None for other nodes."""
    x: Any = node.args[0]
    indices: Any = node.args[1]
    given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        return None
    ((dim, index),) = given
    value = constants.get(index.name)
    # bool, and legacy uint8, are masks
    if value is None or value.dtype in (torch.bool, torch.uint8) or value.numel() == 0:
        return None
    return (x, dim, index, value) if isinstance(shape_of(x)[dim], int) else None


def _step(values: torch.Tensor) -> int | None:
    """Returns the stride of evenly ascending one-dimensional indices."""
    if values.ndim != 1:
        return None
    if len(values) == 1:
        return 1
    differences = values.diff()
    return int(differences[0]) if differences[0] > 0 and bool((differences == differences[0]).all()) else None
