# SPDX-License-Identifier: Apache-2.0
"""Replacement of selects at data-dependent positions by gathers."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def select_by_value(program: EdgeProgram) -> bool:
    """Replaces `x.select(dim, position.item())`, which `x[position]` becomes, by `index`.

    Delegates gather by tensors; data-dependent numbers are dynamic sizes for them.
    """
    builder = Builder(program)
    changed = False
    for node in list(program.graph.nodes):
        if node.target is not aten.select.int:
            continue
        bound = bind(node)
        position = _tensor_of(bound["index"])
        if position is None:
            continue
        x, dim = bound["self"], bound["dim"] % len(shape_of(bound["self"]))
        builder.at(node)
        if shape_of(position) != (1,):
            position = builder.call(aten.view.default, position, [1])
        picked = builder.call(aten.index.Tensor, x, [*[None] * dim, position])
        node.replace_all_uses_with(builder.call(aten.squeeze.dims, picked, [dim], val=node.meta["val"]))
        program.graph.erase_node(node)
        changed = True
    return changed


def _tensor_of(number: Any) -> Node | None:
    """Returns the integer tensor of one element that contains a number; None for other numbers."""
    if not isinstance(number, Node) or number.target is not aten._local_scalar_dense.default:
        return None
    source = number.args[0]
    assert isinstance(source, Node)
    return source if dtype_of(source) in (torch.int32, torch.int64) else None
