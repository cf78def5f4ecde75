# SPDX-License-Identifier: Apache-2.0
"""Steep functions of positive values: reciprocals, roots and logarithms.

A table over the range of an accumulator has too few entries where such a function is steep. So a value is
shifted by its leading zeros, the table is of one or two octaves, and the exponent remains separate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.conversion import Conversion
from delegatec.backends.arm.integer.values import Fixed, Floating, Quantity, Quantized, TableFunction
from delegatec.edge.arguments import shape_of
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_BITS: Final = 30
"""Of operands."""
_MANTISSA: Final = 15
_POINT: Final = 27
"""Bits of a logarithm."""


class _Normal(NamedTuple):
    """A positive value, mantissa * 2^(32 - zeros) * scale with a mantissa below 1.

    With an even exponent, that is 31 - 2 * half.

    Attributes:
        mantissa: int32, times 2^31.
        least: the least mantissa: 1/2, or 1/4 with an even exponent.
        zeros: leading zeros of the integer.
        most: the maximum of these.
        half: (zeros - 1) / 2 with an even exponent, rounded down; else None.
        sign: 1 or -1; None for 1.
        scale: of the integer.
    """

    mantissa: Node
    least: float
    zeros: Node
    most: int
    half: Node | None
    sign: Node | None
    scale: float


def _normalized(
    conversion: Conversion, value: Quantity, even: bool, signed: bool = False, least: float = 0.0
) -> _Normal:
    arithmetic = conversion.arithmetic
    wide = arithmetic.wide(value, _BITS)
    shape = wide.shape

    def scalar(value: int) -> Node:
        return arithmetic.constant(torch.tensor(value, dtype=torch.int32), len(shape))

    def call(target: object, *args: Node) -> Node:
        return arithmetic.once(target, args, torch.int32, shape)

    node, sign = wide.node, None
    if signed:
        double = call(aten.add.Tensor, call(aten.mul.Tensor, node, scalar(2)), scalar(1))
        sign = call(aten.maximum.default, call(aten.minimum.default, double, scalar(1)), scalar(-1))
        node = call(aten.abs.default, node)
    low = min(max(1, round(least / wide.scale[0])), 1 << (_BITS - 1))
    positive = call(aten.maximum.default, node, scalar(low))
    zeros = call(TOSA.clz.default, positive)
    half = None
    shift = call(aten.sub.Tensor, zeros, scalar(1))
    if even:
        half = call(TOSA.shift_right.default, call(aten.sub.Tensor, zeros, scalar(2)), scalar(1))
        shift = call(TOSA.shift_left.default, half, scalar(1))
    mantissa = call(TOSA.shift_left.default, positive, shift)
    return _Normal(mantissa, 0.25 if even else 0.5, zeros, 32 - low.bit_length(), half, sign, wide.scale[0])


def _function(conversion: Conversion, normal: _Normal, function: Callable[[Tensor], Tensor]) -> TableFunction:
    """Returns a function of the mantissa."""
    arithmetic = conversion.arithmetic
    shape = shape_of(normal.mantissa)
    dtype = torch.int16 if arithmetic.wide_tables else torch.int8
    limits = torch.iinfo(dtype)
    center, reach = (1 + normal.least) / 2, (1 - normal.least) / 2
    middle = arithmetic.constant(torch.tensor(round(center * 2**31), dtype=torch.int32), len(shape))
    node = arithmetic.once(aten.sub.Tensor, (normal.mantissa, middle), torch.int32, shape)
    # the ends are quantized values
    to = Quantization.full_range(dtype, reach / limits.max)
    quantized = conversion.quantized(Quantized(node, (2.0**-31,), 0, math.ceil(reach * 2**31)), to)
    return TableFunction(quantized, function((quantized.values + center).clamp(min=normal.least / 2)))


def _mantissa(conversion: Conversion, value: TableFunction) -> Quantized:
    """Returns values as 15 bits."""
    quantized = conversion.arithmetic.evaluated(value)
    if quantized.limit < 1 << (_MANTISSA + 1) and quantized.dtype == torch.int32:
        return quantized
    scale = value.bound / ((1 << _MANTISSA) - 1)
    return Quantized(conversion.arithmetic.accumulate(quantized, scale), (scale,), 0, 1 << _MANTISSA)


def reciprocal(conversion: Conversion, value: Quantity, signed: bool, least: float) -> Floating:
    """Returns the reciprocal of a value.

    Args:
        conversion: the state.
        value: the divisor.
        signed: whether it may be negative.
        least: a positive value; absolute values below it have the same reciprocal.
    """
    normal = _normalized(conversion, value, even=False, signed=signed, least=least)
    quantized = _mantissa(conversion, _function(conversion, normal, torch.reciprocal))
    node = quantized.node
    arithmetic = conversion.arithmetic
    if not arithmetic.wide_tables:
        node = _refined(conversion, normal, quantized)
    if normal.sign is not None:
        node = arithmetic.binary(aten.mul.Tensor, node, normal.sign)
    # 2^(zeros - 32) = 2^(most - 32) / 2^(most - zeros)
    most = arithmetic.constant(torch.tensor(normal.most, dtype=torch.int32), len(quantized.shape))
    exponent = arithmetic.binary(aten.sub.Tensor, most, normal.zeros)
    return Floating(node, exponent, quantized.scale[0] * 2.0 ** (normal.most - 32) / normal.scale)


def _refined(conversion: Conversion, normal: _Normal, quantized: Quantized) -> Node:
    """Returns a reciprocal with twice the bits, by one Newton iteration."""
    arithmetic = conversion.arithmetic
    divisor = Quantized(normal.mantissa, (2.0**-31,), 0, (1 << 31) - 1)
    short = Quantized(arithmetic.accumulate(divisor, 2.0**-15), (2.0**-15,), 0, 1 << 15)
    unit = short.scale[0] * quantized.scale[0]
    product = arithmetic.binary(aten.mul.Tensor, short.node, quantized.node)
    one = arithmetic.constant(torch.tensor(round(1 / unit), dtype=torch.int32), len(quantized.shape))
    error = Quantized(arithmetic.binary(aten.sub.Tensor, one, product), (unit,), 0, round(2**-6 / unit))
    # The first approximation has 8 bits.
    fraction = arithmetic.accumulate(error, 2.0**-20)
    change = Quantized(
        arithmetic.binary(aten.mul.Tensor, fraction, quantized.node),
        (2.0**-20 * quantized.scale[0],),
        0,
        1 << 30,
    )
    change_node = arithmetic.accumulate(change, quantized.scale[0])
    return arithmetic.binary(aten.add.Tensor, quantized.node, change_node)


def inverse_root(conversion: Conversion, value: Quantity) -> Floating:
    """Returns the reciprocal square root."""
    normal = _normalized(conversion, value, even=True)
    assert normal.half is not None
    quantized = _mantissa(conversion, _function(conversion, normal, torch.rsqrt))
    most = conversion.arithmetic.constant(torch.tensor(15, dtype=torch.int32), len(quantized.shape))
    # the integer is mantissa * 2^(31 - 2 * half)
    exponent = conversion.arithmetic.binary(aten.sub.Tensor, most, normal.half)
    return Floating(quantized.node, exponent, quantized.scale[0] / math.sqrt(2 * normal.scale))


def root(conversion: Conversion, value: Quantity) -> Floating:
    """Returns the square root."""
    normal = _normalized(conversion, value, even=True)
    assert normal.half is not None
    quantized = _mantissa(conversion, _function(conversion, normal, torch.sqrt))
    return Floating(quantized.node, normal.half, quantized.scale[0] * math.sqrt(2.0**31 * normal.scale))


def logarithm(conversion: Conversion, value: Quantity, base: float = math.e) -> Quantized:
    """Returns the logarithm."""
    normal = _normalized(conversion, value, even=False)
    unit = math.log(2) / math.log(base)
    start = math.log(normal.scale) / math.log(base) + 32 * unit
    bound = abs(start) + 33 * unit
    scale = bound / (1 << _POINT)
    arithmetic = conversion.arithmetic
    part = arithmetic.accumulate(
        _function(conversion, normal, lambda x: torch.log(x) / math.log(base)), scale
    )
    rank = len(shape_of(part))
    first, factor = (
        arithmetic.constant(torch.tensor(round(each / scale), dtype=torch.int32), rank)
        for each in (start, unit)
    )
    below = arithmetic.binary(aten.mul.Tensor, normal.zeros, factor)
    total = arithmetic.binary(aten.sub.Tensor, arithmetic.binary(aten.add.Tensor, part, first), below)
    return Quantized(total, (scale,), 0, 1 << _POINT)


def times(conversion: Conversion, value: Floating, other: Quantity) -> Quantized:
    """Returns a product."""
    arithmetic = conversion.arithmetic
    if isinstance(other, Fixed):
        scale = (other.bound or 1.0) / ((1 << _MANTISSA) - 1)
        wide = Quantized(arithmetic.accumulate(other, scale), (scale,), 0, 1 << _MANTISSA)
    else:
        wide = arithmetic.wide(other, _MANTISSA)
    product = arithmetic.binary(aten.mul.Tensor, wide.node, value.mantissa)
    node = arithmetic.binary(TOSA.shift_right.default, product, value.exponent)
    limit = min(wide.limit << (_MANTISSA + 1), (1 << 31) - 1)
    return Quantized(node, (wide.scale[0] * value.scale,), 0, limit)


def exponential(conversion: Conversion, value: Quantity, most: float) -> Floating:
    """Returns the exponential of a value.

    Args:
        conversion: the state.
        value: the exponent.
        most: an upper bound; exponentials of greater values are too small.
    """
    arithmetic = conversion.arithmetic
    point = 16
    unit = math.log(2) / (1 << point)
    # Exponentials of larger values are infinite in float32.
    most = min(most, 128 * math.log(2))
    highest = math.ceil(most / math.log(2))
    # Exponentials of smaller values are 0.
    limited = (
        value
        if isinstance(value, (Fixed, TableFunction))
        else value.clamped((highest - 33) * math.log(2), most)
    )
    binary = arithmetic.accumulate(limited, unit)
    shape = shape_of(binary)

    def scalar(value: int) -> Node:
        return arithmetic.constant(torch.tensor(value, dtype=torch.int32), len(shape))

    integral = arithmetic.once(TOSA.shift_right.default, (binary, scalar(point)), torch.int32, shape)
    rounded = arithmetic.once(TOSA.shift_left.default, (integral, scalar(point)), torch.int32, shape)
    rest = arithmetic.once(aten.sub.Tensor, (binary, rounded), torch.int32, shape)
    dtype, bits = (torch.int16, 0) if arithmetic.wide_tables else (torch.int8, 8)
    to = Quantization.full_range(dtype, unit * (1 << bits))
    quantized = conversion.quantized(Quantized(rest, (unit,), 0, 1 << (point - 1)), to)
    mantissa = _mantissa(conversion, TableFunction(quantized, torch.exp(quantized.values)))
    exponent = arithmetic.binary(aten.sub.Tensor, scalar(highest), integral)
    for target, bound in ((aten.maximum.default, 0), (aten.minimum.default, 31)):
        exponent = arithmetic.once(target, (exponent, scalar(bound)), torch.int32, shape)
    return Floating(mantissa.node, exponent, mantissa.scale[0] * 2.0**highest)
