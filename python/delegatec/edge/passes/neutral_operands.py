# SPDX-License-Identifier: Apache-2.0
"""`x & true` is x, broadcast to the shape of the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import dtype, shape
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_CONJUNCTIONS: Final = frozenset({aten.bitwise_and.Tensor, aten.logical_and.default})


def remove_neutral_operands(program: EdgeProgram) -> bool:
    """Replaces a conjunction with a constant of nothing but true by an expansion of the other operand."""
    found = [n for n in program.graph.nodes if n.target in _CONJUNCTIONS and dtype(n) is torch.bool]
    if not found:
        return False
    builder, constants = Builder(program), program.fixed_constants()
    changed = False
    for node in found:
        for true, other in (node.args, node.args[::-1]):
            if isinstance(other, Node) and dtype(other) is torch.bool and _is_true(constants, true):
                expanded = builder.at(node).call(
                    aten.expand.default, other, list(shape(node)), val=node.meta["val"]
                )
                node.replace_all_uses_with(expanded)
                program.graph.erase_node(node)
                changed = True
                break
    return changed


def _is_true(constants: Mapping[str, torch.Tensor], value: object) -> bool:
    constant = constants.get(value.name) if isinstance(value, Node) else None
    return constant is not None and bool(constant.all())
