# SPDX-License-Identifier: Apache-2.0
"""Signs, magnitudes, and rounding to integers."""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import FunctionTable, Rewrite, RuleTable
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, INTEGER_RESULT, pointwise
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten


def _of_integers(_: Builder, node: Node) -> Node | None:
    """Rounds integers, which are unchanged; the runtime's kernels convert them to float64."""
    x: Node = bind(node)["self"]
    dtype = dtype_of(x)
    return x if not dtype.is_floating_point and dtype is dtype_of(node) else None


def _signbit(x: Tensor) -> Tensor:
    """Whether a value is negative, including -0; NaN is positive, as no kernel returns its sign."""
    if x.dtype in (torch.bool, torch.uint8):
        return torch.zeros_like(x, dtype=torch.bool)
    if not x.is_floating_point():
        return x < 0
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


def _copysign(x: Tensor, y: Any) -> Tensor:
    dtype = torch.result_type(x, y) if isinstance(y, Tensor) else x.dtype
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    magnitude = x.to(dtype).abs()
    if not isinstance(y, Tensor):
        return -magnitude if math.copysign(1.0, y) < 0 else magnitude
    return torch.where(_signbit(y), -magnitude, magnitude)


def _round_decimals(x: Tensor, *, decimals: int) -> Any:
    if not x.is_floating_point():
        return NotImplemented
    scale, wide = 10.0 ** abs(decimals), x.float() if x.itemsize == 2 else x  # as the kernel of ATen
    rounded = torch.round(wide * scale) / scale if decimals >= 0 else torch.round(wide / scale) * scale
    return rounded.to(x.dtype)


def _sign_by_where(x: Value) -> Value:
    zero = x.lt(0.0).where(-1.0, x.scalar(0.0))
    return x.gt(0.0).where(1.0, zero)


def _sign_by_difference(x: Value) -> Value:
    return x.gt(0.0).to(x.dtype) - x.lt(0.0).to(x.dtype)


def sign_by_clamp(x: Value, least: float = -1.0) -> Value:
    """Clamps a product that is at least one for each positive normal value; returns at least `least`."""
    factor = 2.0 ** (math.frexp(torch.finfo(x.dtype).max)[1] - 1)
    return (x * factor * factor).clamp(least, 1.0)


def _round_by_sum(x: Value) -> Value:
    """Adds the least float from which all are integers, and subtracts it: the sum is rounded to even."""
    least = 1 / torch.finfo(x.dtype).eps
    positive, negative = x.clamp(0.0, least), x.clamp(-least, 0.0)
    result = x - positive - negative
    for part, shift in ((positive, least), (negative, -least)):
        result = result + (part + shift - shift)
    return result


def _ceil_by_floor(x: Value) -> Value:
    return -(-x).floor()


RULES: RuleTable = dict.fromkeys(
    (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default), _of_integers
)

FUNCTIONS: FunctionTable = {
    aten.copysign.Scalar: _copysign,
    aten.copysign.Tensor: _copysign,
    aten.round.decimals: _round_decimals,
    aten.signbit.default: _signbit,
}

REWRITES: Final = (
    Rewrite(
        aten.abs.default,
        pointwise(lambda x: x.lt(0).where(-x, x)),
        (INTEGER_RESULT,),
        note="by where for integers",
    ),
    Rewrite(
        aten.sign.default,
        pointwise(lambda x: x.clamp(-1, 1)),
        (INTEGER_RESULT,),
        note="by clamp for integers",
    ),
    Rewrite(
        aten.trunc.default,
        pointwise(lambda x: x.lt(0.0).where(x.ceil(), x.floor())),
        (FLOAT_RESULT,),
    ),
)

SIGN_BY_WHERE: Final = tuple(
    Rewrite(target, pointwise(_sign_by_where), (FLOAT_RESULT,))
    for target in (aten.sign.default, aten.sgn.default)
)
SIGN_BY_DIFFERENCE: Final = Rewrite(aten.sign.default, pointwise(_sign_by_difference), (FLOAT_RESULT,))
SIGN_BY_CLAMP: Final = Rewrite(
    aten.sign.default,
    pointwise(sign_by_clamp),
    (FLOAT_RESULT,),
    note="a product that is clamped; values below the least normal one are zero",
)
ROUND_BY_SUM: Final = Rewrite(
    aten.round.default, pointwise(_round_by_sum), (FLOAT_RESULT,), note="a sum and a difference"
)
BY_FLOOR: Final = (
    Rewrite(aten.ceil.default, pointwise(_ceil_by_floor), (FLOAT_RESULT,)),
    Rewrite(
        aten.trunc.default,
        pointwise(lambda x: x.lt(0.0).where(_ceil_by_floor(x), x.floor())),
        (FLOAT_RESULT,),
    ),
)
