# SPDX-License-Identifier: Apache-2.0
"""Trigonometric and hyperbolic functions, and their inverses, from sines, exponentials and series.

Series have a relative error below that of float32. Half precision is computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload

from delegatec.edge.legalize.rule import FunctionTable, Rewrite
from delegatec.edge.legalize.rules.arithmetic import promoted
from delegatec.edge.legalize.rules.exponentials import log1p
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, in_float32, pointwise, polynomial
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten

# Coefficients in x^2 of (f(x) - x) / x^3, fitted to the least largest relative error of f.
_ATAN: Final = (
    *(-0.3333329909, 0.1999854829, -0.142642417, 0.1095218589, -0.08403450661),
    *(0.05795759904, -0.0311778511, 0.01091460846, -0.001793622295),
)  # [0, 1]
_ASIN: Final = (0.1666675248, 0.07495297643, 0.04547037594, 0.02417951479, 0.04216630828)  # [0, 0.5]
_SINH: Final = (0.166666665, 0.008333350058, 0.0001983615978, 2.816951226e-06)  # [0, 1]
_ATANH: Final = (0.3333320814, 0.2001076363, 0.1400090249, 0.1400599402)  # [0, 1 / 3]
_HUGE: Final = 1e9
# The sum of the parts is pi/2. Products of the first ones are exact up to a number.
_MOST_QUARTERS: Final = 4096
_HALF_PI: Final = (1.5703125, 4.837512969970703e-4, 7.54978995489188e-8)
"""A value whose square plus one rounds to its square."""


def _odd(x: Value, coefficients: Sequence[float]) -> Value:
    """Returns x + x^3 times a series in x^2."""
    square = x * x
    series = polynomial(square, coefficients)
    return x + x * square * series


def _signed(magnitude: Value, x: Value) -> Value:
    """Returns a value with the sign of another one."""
    return x.lt(0.0).where(-magnitude, magnitude)


def _atan(x: Value) -> Value:
    size = x.abs()
    is_steep = size.gt(1.0)
    angle = _odd(is_steep.where(size.reciprocal(), size), _ATAN)
    return _signed(is_steep.where(math.pi / 2 - angle, angle), x)


def _arc(size: Value) -> tuple[Value, Value]:
    """Returns whether a sine exceeds 0.5; and half of its complement's angle if so, else its angle."""
    is_far = size.gt(0.5)
    return is_far, _odd(is_far.where(((1.0 - size) * 0.5).sqrt(), size), _ASIN)


def _asin(x: Value) -> Value:
    is_far, angle = _arc(x.abs())
    return _signed(is_far.where(math.pi / 2 - angle * 2.0, angle), x)


def _acos(x: Value) -> Value:
    is_far, angle = _arc(x.abs())
    near = math.pi / 2 - _signed(angle, x)
    far = angle * 2.0
    return is_far.where(x.lt(0.0).where(math.pi - far, far), near)


def _halves(x: Value) -> tuple[Value, Value]:
    """Returns exp(|x|) / 2 and exp(-|x|) / 2, by the square of the root, which does not overflow."""
    root = (x.abs() * 0.5).exp()
    large = root * 0.5 * root
    return large, large.reciprocal() * 0.25


def _cosh(x: Value) -> Value:
    large, small = _halves(x)
    return large + small


def _sinh(x: Value) -> Value:
    large, small = _halves(x)
    return x.abs().lt(1.0).where(_odd(x, _SINH), _signed(large - small, x))


def _tan(x: Value) -> Value:
    """Computes the tangent of the distance to the next multiple of pi/2, or its negative reciprocal.

    The error of a target's cosine is absolute: near a pole, where it is small, a quotient loses digits.
    """
    quarter = (x * (2 / math.pi)).round()
    quarter = quarter.abs().lt(_MOST_QUARTERS).where(quarter, 0.0)
    for part in _HALF_PI:
        x = x - quarter * part
    tangent = x.sin() / x.cos()
    half = quarter * 0.5
    return half.eq(half.floor()).where(tangent, -tangent.reciprocal())


def _asinh(x: Value) -> Value:
    size = x.abs()
    square = size * size
    near = log1p(size + square / ((square + 1.0).sqrt() + 1.0))
    return _signed(size.gt(_HUGE).where(size.log() + math.log(2.0), near), x)


def _acosh(x: Value) -> Value:
    above = x - 1.0
    near = log1p(above + above.sqrt() * (x + 1.0).sqrt())
    return x.gt(_HUGE).where(x.log() + math.log(2.0), near)


def _atanh(x: Value) -> Value:
    size = x.abs()
    far = _signed(((size + 1.0) / (1.0 - size)).log() * 0.5, x)
    return size.lt(1.0 / 3.0).where(_odd(x, _ATANH), far)


def _atan2(y: Value, x: Value) -> Value:
    """Returns the angle of (x, y), from the arc tangent of their smaller magnitude over the larger."""
    width, height = x.abs(), y.abs()
    is_steep = height.gt(width)
    longer, shorter = is_steep.where(height, width), is_steep.where(width, height)
    # 0 / 0 and inf / inf: angles of 0 and 45 degrees. A target whose `where` is arithmetic needs operands
    # with a quotient, since it cannot discard NaN.
    are_infinite = shorter.isinf() & longer.isinf()
    shorter = are_infinite.where(1.0, shorter)
    longer = (are_infinite | longer.eq(0.0)).where(1.0, longer)
    angle = (shorter / longer).atan()
    angle = is_steep.where(math.pi / 2 - angle, angle)
    angle = x.is_negative().where(math.pi - angle, angle)
    return y.is_negative().where(-angle, angle)


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    """Computes the hypotenuse without overflow; infinite if an operand is, even for NaN."""
    x, y = promoted(x, y)
    x, y = x.abs(), y.abs()
    longer, shorter = torch.maximum(x, y), torch.minimum(x, y)
    ratio = shorter / torch.where(longer == 0, 1.0, longer)
    result = longer * torch.sqrt(1 + ratio * ratio)
    return torch.where(torch.isinf(x) | torch.isinf(y), math.inf, result)


def _angle(x: Tensor) -> Any:
    """Returns the angle of a real number: pi if negative, NaN for NaN, else 0."""
    if x.is_complex():
        return NotImplemented
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    return torch.where(torch.isnan(x), x, (x < 0).to(x.dtype) * math.pi)


_FUNCTIONS: Final[tuple[tuple[OpOverload, Callable[[Value], Value]], ...]] = (
    (aten.acos.default, _acos),
    (aten.acosh.default, _acosh),
    (aten.asin.default, _asin),
    (aten.asinh.default, _asinh),
    (aten.atan.default, _atan),
    (aten.atanh.default, _atanh),
    (aten.cosh.default, _cosh),
    (aten.sinh.default, _sinh),
    (aten.tan.default, _tan),
)

FUNCTIONS: FunctionTable = {aten.angle.default: _angle, aten.hypot.default: _hypot}

REWRITES: Final = (
    *(
        Rewrite(
            target, in_float32(compute), (FLOAT_RESULT,), note="a series where others lose digits; in float32"
        )
        for target, compute in _FUNCTIONS
    ),
    Rewrite(
        aten.atan2.default, pointwise(_atan2, 2), (FLOAT_RESULT,), note="from the arc tangent of a ratio"
    ),
)
