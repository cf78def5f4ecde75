# SPDX-License-Identifier: Apache-2.0
"""Removal of neutral operands: `x & true`, `x * 1` and `where(true, x, y)` are x, broadcast.

Masks that mask nothing are such constants: every attention layer tests, selects and multiplies by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.edge.arguments import dtype, shape
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Whether a node is a constant filled with a number.
_IsFull = Callable[[Any, float], bool]


def remove_neutral_operands(program: EdgeProgram) -> bool:
    """Replaces operators that return one of their operands by an expansion of it.

    Parameters are not neutral: a weight of ones may be untrained.
    """
    found = [(node, _OPERANDS[node.target]) for node in program.graph.nodes if node.target in _OPERANDS]
    if not found:
        return False
    builder, is_full = Builder(program), _full_constants(program)
    changed = False
    for node, operand_of in found:
        operand = operand_of(node, is_full)
        if not isinstance(operand, Node) or dtype(operand) is not dtype(node):
            continue
        expanded = builder.at(node).call(
            aten.expand.default, operand, list(shape(node)), val=node.meta["val"]
        )
        node.replace_all_uses_with(expanded)
        program.graph.erase_node(node)
        changed = True
    return changed


def _of_conjunction(node: Node, is_full: _IsFull) -> object:
    """Returns the other operand of a conjunction with a constant true."""
    if dtype(node) is not torch.bool:
        return None
    return next((other for true, other in (node.args, node.args[::-1]) if is_full(true, 1)), None)


def _of_product(node: Node, is_full: _IsFull) -> object:
    """Returns the other operand of a product with constant ones."""
    return next((other for ones, other in (node.args, node.args[::-1]) if is_full(ones, 1)), None)


def _of_choice(node: Node, is_full: _IsFull) -> object:
    """Returns the operand that a constant condition selects."""
    condition, then, otherwise = node.args
    return then if is_full(condition, 1) else otherwise if is_full(condition, 0) else None


_OPERANDS: Final[Mapping[Any, Callable[[Node, _IsFull], object]]] = {
    aten.bitwise_and.Tensor: _of_conjunction,
    aten.logical_and.default: _of_conjunction,
    aten.mul.Tensor: _of_product,
    aten.where.self: _of_choice,
}


def _full_constants(program: EdgeProgram) -> _IsFull:
    fixed = program.fixed_constants()
    constants = {
        spec.arg.name: fixed[spec.arg.name]
        for spec in program.input_specs
        if spec.kind is not InputKind.PARAMETER and spec.arg.name in fixed
    }
    known: dict[tuple[str, float], bool] = {}

    def is_full(value: Any, number: float) -> bool:
        if not isinstance(value, Node) or value.name not in constants:
            return False
        if (value.name, number) not in known:
            tensor = constants[value.name]
            known[value.name, number] = tensor.numel() > 0 and bool((tensor == number).all())
        return known[value.name, number]

    return is_full
