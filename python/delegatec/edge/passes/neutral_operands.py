# SPDX-License-Identifier: Apache-2.0
"""Removal of neutral operands: `x & true`, `x * 1`, `-(-x)` and `where(true, x, y)` are x, broadcast.

Masks that mask nothing are such constants: every attention layer tests, selects and multiplies by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.movement.arrangement import is_movement
from delegatec.edge.passes.redirect import redirect
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

# Whether a node is a constant filled with a number.
_IsFull = Callable[[Any, float], bool]


_OperandOf = Callable[[Node, _IsFull], object]


def remove_neutral_operands(program: EdgeProgram) -> bool:
    """Replaces operators that return one of their operands by an expansion of it.

    Parameters are not neutral: a weight of ones may be untrained.
    """
    found = [(node, _OPERANDS[node.target]) for node in program.graph.nodes if node.target in _OPERANDS]
    if not found:
        return False
    builder, is_full = Builder(program), _full_constants(program)
    expanded: dict[Node, Node] = {}
    for node, operand_of in found:
        operand = operand_of(node, is_full)
        if isinstance(operand, Node) and dtype_of(operand) is dtype_of(node):
            sizes = list(shape_of(node))
            expanded[node] = builder.at(node).call(aten.expand.default, operand, sizes, val=node.meta["val"])
    return redirect(expanded)


def _other_operand(neutral: float, is_commutative: bool = True) -> _OperandOf:
    """Returns the rule of operators that return one operand if the other is a constant neutral number."""

    def rule(node: Node, is_full: _IsFull) -> object:
        first, second = node.args
        if node.kwargs.get("alpha", 1) == 1 and is_full(second, neutral):
            return first
        return second if is_commutative and is_full(first, neutral) else None

    return rule


def _of_conjunction(node: Node, is_full: _IsFull) -> object:
    return _other_operand(1)(node, is_full) if dtype_of(node) is torch.bool else None


def _of_sum(node: Node, is_full: _IsFull) -> object:
    """Returns the operand other than zeros, unless users distinguish -0.0 from -0.0 + 0.0, which is 0.0."""
    if node.kwargs.get("alpha", 1) != 1:
        return None
    ignores_sign = not dtype_of(node).is_floating_point or _ignores_sign_of_zero(node)
    return _other_operand(-0.0)(node, is_full) or (
        _other_operand(0.0)(node, is_full) if ignores_sign else None
    )


def _ignores_sign_of_zero(node: Node) -> bool:
    """Whether zeros of both signs lead to the same results, through movements."""
    pending = list(node.users)
    while pending:
        user = pending.pop()
        if is_movement(user):
            pending += user.users
        elif user.target not in (aten._softmax.default, aten.exp.default):
            return False
    return True


def _of_choice(node: Node, is_full: _IsFull) -> object:
    """Returns the operand that a constant condition selects, or the only one."""
    condition, then, otherwise = node.args
    if then is otherwise or is_full(condition, 1):
        return then
    return otherwise if is_full(condition, 0) else None


def _of_inverse(node: Node, _: _IsFull) -> object:
    """Returns the operand of an involution that is applied twice."""
    before = node.args[0]
    return before.args[0] if isinstance(before, Node) and before.target is node.target else None


def _of_number(neutral: float) -> _OperandOf:
    """Returns the rule of operators that return the operand other than a number; zeros must have its sign."""

    def rule(node: Node, _: _IsFull) -> object:
        operand, number, *scale = node.args
        if isinstance(number, Node) or number != neutral or scale:
            return None
        is_same = math.copysign(1, number) == math.copysign(1, neutral)  # type: ignore[arg-type]
        return operand if is_same or not dtype_of(node).is_floating_point else None

    return rule


def _of_repetition(node: Node, _: _IsFull) -> object:
    """Returns the operand if it is the result of the same call."""
    before: Any = node.args[0]
    is_same = before.target is node.target and (before.args[1:], before.kwargs) == (
        node.args[1:],
        node.kwargs,
    )
    return before if is_same else None


def _of_whole_number(node: Node, _: _IsFull) -> object:
    before: Any = node.args[0]
    return before if before.target in _ROUNDINGS else None


_ROUNDINGS: Final = (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)

_OPERANDS: Final[Mapping[Any, _OperandOf]] = {
    # -0.0 + 0.0 is 0.0, but -0.0 - 0.0 is -0.0
    aten.add.Scalar: _of_number(-0.0),
    aten.add.Tensor: _of_sum,
    aten.bitwise_and.Tensor: _of_conjunction,
    aten.bitwise_not.default: _of_inverse,
    aten.bitwise_or.Scalar: _of_number(0),
    aten.bitwise_or.Tensor: _other_operand(0),
    aten.bitwise_xor.Scalar: _of_number(0),
    aten.bitwise_xor.Tensor: _other_operand(0),
    aten.div.Scalar: _of_number(1),
    aten.div.Tensor: _other_operand(1, is_commutative=False),
    aten.logical_and.default: _of_conjunction,
    aten.logical_not.default: _of_inverse,
    aten.logical_or.default: _other_operand(0),
    aten.mul.Scalar: _of_number(1),
    aten.mul.Tensor: _other_operand(1),
    aten.neg.default: _of_inverse,
    aten.pow.Tensor_Scalar: _of_number(1),
    aten.sub.Scalar: _of_number(0.0),
    aten.sub.Tensor: _other_operand(0.0, is_commutative=False),
    aten.where.self: _of_choice,
    **dict.fromkeys((aten.abs.default, aten.clamp.default, aten.hardtanh.default), _of_repetition),
    aten.relu.default: _of_repetition,
    **dict.fromkeys(_ROUNDINGS, _of_whole_number),
}


def _full_constants(program: EdgeProgram) -> _IsFull:
    fixed = program.fixed_constants()
    constants = {
        spec.arg.name: fixed[spec.arg.name]
        for spec in program.input_specs
        if spec.kind is not InputKind.PARAMETER and spec.arg.name in fixed
    }
    known: dict[tuple[str, str], bool] = {}

    def is_full(value: Any, number: float) -> bool:
        if not isinstance(value, Node) or value.name not in constants:
            return False
        key = (value.name, repr(number))
        if key not in known:
            known[key] = _is_full(constants[value.name], number)
        return known[key]

    return is_full


def _is_full(tensor: torch.Tensor, number: float) -> bool:
    """Whether a tensor has elements and all are equal to a number, of the same sign if they are zero."""
    if tensor.numel() == 0 or tensor.flatten()[0] != number or not bool((tensor == number).all()):
        return False
    is_negative = math.copysign(1, number) < 0
    return number != 0 or bool((tensor.signbit() == is_negative).all())
