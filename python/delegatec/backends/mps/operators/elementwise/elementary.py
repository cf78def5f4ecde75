# SPDX-License-Identifier: Apache-2.0
"""Elementary functions that the runtime lacks or has otherwise than ATen, as expressions.

What MPSGraph does differently, as PyTorch's own MPS backend found (its pull requests in brackets): minimum,
maximum, clamp and relu lose NaN (143976, 121381, 183571), round takes halves away from zero (161712), sign
and the rounding functions do not know int64 (86615).
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import HardTanhT, Operation

from delegatec.backends.common.constants import FLOAT16_MAX, kept_from_zero
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import Number

# Below it the series of log1p and expm1 are used, with as many terms as the type can tell apart.
_SMALL: Final = 0.5
_LOG1P_TERMS: Final = {torch.float32: 7, torch.float16: 4}
_EXPM1_TERMS: Final = {torch.float32: 9, torch.float16: 5}


def number(like: Expression, value: Number, dtype: torch.dtype | None = None) -> Expression:
    """A constant of shape [1] for the graph and the dtype of another expression."""
    return Expression(like.builder, like.builder.scalar(value, dtype or like.dtype))


def is_nan(x: Expression) -> Expression:
    """Whether each is NaN."""
    return x.unary(Operation.Isnan, torch.bool)


def is_infinite(x: Expression) -> Expression:
    """Whether each is infinite, of either sign."""
    return x.unary(Operation.Isinf, torch.bool)


def bounded(x: Expression, low: float, high: float) -> Expression:
    """Floats between two numbers, which are in order and may be infinite; NaN stays."""
    limits = [_in_range(x, limit) for limit in (low, high)]
    out = x.builder.temporary(x.shape, x.dtype)
    x.builder.emit(Operation.HardTanh, HardTanhT(x.id, out, *limits))
    return Expression(x.builder, out)


def _in_range(x: Expression, limit: float) -> float:
    """A bound, which float16 makes neither infinite nor zero."""
    if not x.builder.halves(x.dtype) or math.isinf(limit):
        return limit
    return kept_from_zero(max(-FLOAT16_MAX, min(limit, FLOAT16_MAX)))


def minimum(first: Expression, second: Expression) -> Expression:
    """The smaller of each two; NaN beside NaN, which the runtime's Minimum loses."""
    if not first.dtype.is_floating_point:
        return first.minimum(second)
    return (first.compare(Operation.Lt, second) | is_nan(first)).where(first, second)


def maximum(first: Expression, second: Expression) -> Expression:
    """The larger of each two; NaN beside NaN."""
    larger = first.compare(Operation.Gt, second)
    if first.dtype.is_floating_point:
        larger = larger | is_nan(first)
    return larger.where(first, second)


def absolute(x: Expression) -> Expression:
    """Without the sign; integers by a choice, as MPSGraph's kernels for them are not all exact."""
    if x.dtype.is_floating_point:
        return x.unary(Operation.Abs)
    return x.compare(Operation.Lt, 0).where(-x, x)


def truncated(x: Expression) -> Expression:
    """Rounded toward zero."""
    return x.compare(Operation.Lt, 0.0).where(x.unary(Operation.Ceil), x.unary(Operation.Floor))


def rounded(x: Expression) -> Expression:
    """To the nearest integer, halves to even whatever Round does with them: half of an odd one is none."""
    nearest = x.unary(Operation.Round)
    is_half = (x - nearest).unary(Operation.Abs).compare(Operation.Eq, 0.5)
    even = (x * 0.5).unary(Operation.Round) * 2.0
    return is_half.where(even, nearest)


def power(x: Expression, exponent: int) -> Expression:
    """A positive integer power, by squaring."""
    assert exponent > 0
    result: Expression | None = None
    while exponent:
        if exponent % 2:
            result = x if result is None else result * x
        exponent //= 2
        if exponent:
            x = x * x
    assert result is not None
    return result


def log1p(x: Expression) -> Expression:
    """log(1 + x), exact near zero as well: there 2 atanh(x / (2 + x)), as a series."""
    s = x / (x + 2.0)
    square = s * s
    terms = _LOG1P_TERMS[x.dtype]
    series = number(x, 2.0 / (2 * terms - 1))
    for index in reversed(range(terms - 1)):
        series = series * square + 2.0 / (2 * index + 1)
    is_small = x.unary(Operation.Abs).compare(Operation.Lt, _SMALL)
    return is_small.where(s * series, (x + 1.0).unary(Operation.Log))


def expm1(x: Expression) -> Expression:
    """exp(x) - 1, exact near zero as well: there x (1 + x / 2 (1 + x / 3 (...)))."""
    terms = _EXPM1_TERMS[x.dtype]
    series = x * (1.0 / terms) + 1.0
    for index in reversed(range(2, terms)):
        series = series * (x * (1.0 / index)) + 1.0
    is_small = x.unary(Operation.Abs).compare(Operation.Lt, _SMALL)
    return is_small.where(x * series, x.unary(Operation.Exp) - 1.0)


def atan2(y: Expression, x: Expression) -> Expression:
    """The angle of (x, y), from the arc tangent of the smaller of their sizes over the larger."""
    width, height = x.unary(Operation.Abs), y.unary(Operation.Abs)
    is_steep = height.compare(Operation.Gt, width)
    longer, shorter = is_steep.where(height, width), is_steep.where(width, height)
    # 0 / 0 and inf / inf: no angle, and half of a right one
    ratio = longer.compare(Operation.Eq, 0.0).where(shorter, shorter / longer)
    ratio = (is_infinite(shorter) & is_infinite(longer)).where(number(x, 1.0), ratio)
    angle = ratio.unary(Operation.Atan)
    angle = is_steep.where(math.pi / 2 - angle, angle)
    angle = is_negative(x).where(math.pi - angle, angle)
    return is_negative(y).where(-angle, angle)


def is_negative(x: Expression) -> Expression:
    """Whether the sign is minus, that of zero too; false for NaN."""
    return x.compare(Operation.Lt, 0.0) | x.unary(Operation.Reciprocal).compare(Operation.Lt, 0.0)
