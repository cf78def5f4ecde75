# SPDX-License-Identifier: Apache-2.0
"""Intervals of the elements of a value, and whether they are integers."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch


class Interval(NamedTuple):
    """Bounds of the elements of a value that are not NaN.

    Attributes:
        low: the lower bound; may be minus infinity.
        high: the upper bound.
        is_integral: whether all finite elements are integers.
    """

    low: float
    high: float
    is_integral: bool

    @property
    def width(self) -> float:
        """The maximum distance of two elements."""
        return self.high - self.low


UNKNOWN: Final = Interval(-math.inf, math.inf, False)

_INTEGERS: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FORMATS: Final = {
    torch.bfloat16: (8, -133),
    torch.float16: (11, -24),
    torch.float32: (24, -149),
    torch.float64: (53, -1074),
}
"""Floating point dtype -> bits of its significand, and exponent of its smallest positive value."""


def of_dtype(dtype: torch.dtype) -> Interval:
    """Returns the interval of all values of a dtype."""
    if dtype == torch.bool:
        return Interval(0, 1, True)
    if dtype.is_floating_point or dtype.is_complex:
        return UNKNOWN
    limits = torch.iinfo(dtype)
    return Interval(limits.min, limits.max, True)


def of_scalar(value: float) -> Interval:
    """Returns the interval of one scalar."""
    if isinstance(value, complex) or math.isnan(value):
        return UNKNOWN
    return Interval(value, value, float(value).is_integer())


def of_constant(tensor: torch.Tensor) -> Interval:
    """Returns the interval from the smallest to the largest element, in one pass."""
    if tensor.numel() == 0:
        return of_scalar(0)
    if tensor.dtype not in (torch.bool, *_INTEGERS, *FORMATS):
        return of_dtype(tensor.dtype)
    low, high = (end.item() for end in tensor.aminmax())
    return union(of_scalar(low), of_scalar(high))._replace(is_integral=tensor.dtype not in FORMATS)


def union(*intervals: Interval) -> Interval:
    """Returns the smallest interval that contains all of them."""
    lows, highs, integral = zip(*intervals, strict=True)
    return Interval(min(lows), max(highs), all(integral))


def converted(interval: Interval, dtype: torch.dtype) -> Interval:
    """Returns the interval of exact results after conversion to a dtype.

    An integer that does not fit wraps around; a floating-point value is rounded, up to infinity. Conversion
    to an integer truncates; torch does not specify it for NaN and values that do not fit.
    """
    low, high, is_integral = interval
    widest = of_dtype(dtype)
    if math.isnan(low) or math.isnan(high) or dtype.is_complex:
        return widest
    if dtype.is_floating_point:
        return Interval(_rounded(low, dtype, -math.inf), _rounded(high, dtype, math.inf), is_integral)
    if low < widest.low or high > widest.high:
        return widest
    return Interval(math.trunc(low), math.trunc(high), True)


def _rounded(bound: float, dtype: torch.dtype, outwards: float) -> float:
    """Rounds a bound outwards to a floating point dtype.

    Args:
        bound: a finite value, or infinity.
        dtype: the dtype.
        outwards: infinity, or minus infinity for a lower bound.
    """
    value = float(bound)
    if value != bound and (value < bound) == (outwards > 0):
        value = math.nextafter(value, outwards)
    if dtype == torch.float64 or math.isinf(value):
        return value
    if dtype not in FORMATS:
        return outwards
    largest = torch.finfo(dtype).max
    if abs(value) > largest:
        return outwards if (value > 0) == (outwards > 0) else math.copysign(largest, value)
    bits, smallest = FORMATS[dtype]
    unit = 2.0 ** max(math.frexp(value)[1] - bits, smallest)
    return (math.ceil if outwards > 0 else math.floor)(value / unit) * unit
