# SPDX-License-Identifier: Apache-2.0
"""Removes neutral operands: `x & true`, `x * 1`, `-(-x)` and `where(true, x, y)` are x, broadcast.

Masks without masked elements are such constants: every attention layer tests, selects and multiplies by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.movement.arrangement import is_movement
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import ANY, Argument, Call, OneOf, Pattern, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten

_INVOLUTIONS: Final = (aten.bitwise_not.default, aten.logical_not.default, aten.neg.default)
_IDEMPOTENT: Final = (aten.abs.default, aten.relu.default)
_LIMITS: Final = (aten.clamp.default, aten.hardtanh.default)
_ROUNDINGS: Final = (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)
_ORS: Final = (aten.bitwise_or.Tensor, aten.bitwise_xor.Tensor, aten.logical_or.default)
_OR_SCALARS: Final = (aten.bitwise_or.Scalar, aten.bitwise_xor.Scalar)
_ANDS: Final = (aten.bitwise_and.Tensor, aten.logical_and.default)

# Whether an argument is a scalar, or a constant filled with it.
_IsFull = Callable[[Any, float], bool]


def remove_neutral_operands(program: EdgeProgram) -> bool:
    """Replaces operators that return one of their operands by an expansion of it.

    Parameters are not neutral: a weight of ones may be untrained.
    """
    return rewrite(program, fusion(_neutral(_full_constants(program)), _expanded))


def _expanded(b: Builder, node: Node, x: Node, **_: object) -> Node | None:
    if is_scalar(x) or dtype_of(x) is not dtype_of(node):
        return None
    return b.call(aten.expand.default, x, list(shape_of(node)), val=node.meta["val"])


def _neutral(is_full: _IsFull) -> Pattern:
    """Returns the pattern of calls that return `x`."""

    def full(fill: float) -> Pattern:
        return ANY.where(lambda value: is_full(value, fill))

    x, low, high = Var("x"), Argument("low"), Argument("high")
    choose = aten.where.self
    return OneOf(
        x + full(-0.0),  # -0.0 + 0.0 is 0.0, but -0.0 - 0.0 is -0.0
        (x + full(0.0)).where(_ignores_sign_of_zero),
        *(x - full(0.0), x * full(1), x / full(1), x**1),
        *(Call(_ORS, x, full(0), commutes=True), Call(_OR_SCALARS, x, full(0))),
        Call(_ANDS, x, full(1), commutes=True).where(lambda node: dtype_of(node) is torch.bool),
        *(Call(choose, ANY, x, x), Call(choose, full(1), x, ANY), Call(choose, full(0), ANY, x)),
        *(Call(each, Call(each, x)) for each in _INVOLUTIONS),
        *(Call(each, Call(each, ANY).named("x")) for each in _IDEMPOTENT),
        *(Call(each, Call(each, ANY, low, high).named("x"), low, high) for each in _LIMITS),
        Call(_ROUNDINGS, Call(_ROUNDINGS, ANY).named("x")),
    )


def _ignores_sign_of_zero(node: Node) -> bool:
    """Whether zeros of both signs lead to the same results, through movements."""
    if not dtype_of(node).is_floating_point:
        return True
    pending = list(node.users)
    while pending:
        user = pending.pop()
        if is_movement(user):
            pending += user.users
        elif user.target not in (aten._softmax.default, aten.exp.default):
            return False
    return True


def _full_constants(program: EdgeProgram) -> _IsFull:
    fixed = program.fixed_constants()
    constants = {
        spec.arg.name: fixed[spec.arg.name]
        for spec in program.input_specs
        if spec.kind is not InputKind.PARAMETER and spec.arg.name in fixed
    }
    known: dict[tuple[str, str], bool] = {}

    def is_full(value: Any, fill: float) -> bool:
        if isinstance(value, (int, float)):
            return value == fill and math.copysign(1, value) == math.copysign(1, fill)
        if not isinstance(value, Node) or value.name not in constants:
            return False
        key = (value.name, repr(fill))
        if key not in known:
            known[key] = _is_full(constants[value.name], fill)
        return known[key]

    return is_full


def _is_full(tensor: torch.Tensor, fill: float) -> bool:
    """Whether a tensor has elements and all are equal to a scalar, of the same sign if they are zero."""
    if tensor.numel() == 0 or tensor.flatten()[0] != fill or not bool((tensor == fill).all()):
        return False
    is_negative = math.copysign(1, fill) < 0
    return fill != 0 or bool((tensor.signbit() == is_negative).all())
