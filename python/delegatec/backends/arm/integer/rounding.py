# SPDX-License-Identifier: Apache-2.0
"""Rounding to integral values, signs, and conversion to integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer.arithmetic import BITS, Arithmetic
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.values import (
    Fixed,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.legalize.value import Value
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_MOST_FRACTION: Final = 24
"""Bits after the point; the values of eager mode have no more."""
_MOST_ENTRY: Final = 1 << 14
"""Below it, 16-bit entries are exact integers."""
_LIMITS: Final = {each: torch.iinfo(each) for each in (torch.int8, torch.int16, torch.int32)}


def _floor(arithmetic: Arithmetic, wide: Node, bits: int) -> Node:
    """Halves are rounded up by shifts, the only rounding that all NPUs have."""
    return _shifted(arithmetic, wide, -_half(bits), bits)


def _ceil(arithmetic: Arithmetic, wide: Node, bits: int) -> Node:
    return _shifted(arithmetic, wide, _half(bits) - 1, bits)


def _trunc(arithmetic: Arithmetic, wide: Node, bits: int) -> Node:
    """Adds an offset to negative values, so that the floor of the sum is the ceiling."""
    opposite = arithmetic.binary(aten.sub.Tensor, _scalar(arithmetic, 0, wide), wide)
    least = arithmetic.binary(aten.maximum.default, opposite, _scalar(arithmetic, 0, wide))
    bias = arithmetic.binary(aten.minimum.default, least, _scalar(arithmetic, (1 << bits) - 1, wide))
    return _floor(arithmetic, arithmetic.binary(aten.add.Tensor, wide, bias), bits)


def _round(arithmetic: Arithmetic, wide: Node, bits: int) -> Node:
    """Corrects odd integers to which halves were rounded up; ATen rounds halves to even."""
    x = Value(arithmetic.builder, wide)
    by = Value(arithmetic.builder, _scalar(arithmetic, bits, wide))
    one, zero = (Value(arithmetic.builder, _scalar(arithmetic, each, wide)) for each in (1, 0))

    def shifted(target: Any, value: Value, count: Value) -> Value:
        args = (value.node, count.node)
        return Value(x.builder, arithmetic.once(target, args, torch.int32, x.shape))

    nearest = shifted(TOSA.shift_right.default, x, by)
    rest = shifted(TOSA.shift_left.default, nearest, by) - x
    is_half = (rest - (_half(bits) - 1)).maximum(zero)
    even = shifted(TOSA.shift_left.default, shifted(TOSA.shift_right.default, nearest - 1, one), one)
    return (nearest - is_half * (nearest - even)).node


def _half(bits: int) -> int:
    return (1 << bits) // 2


def _shifted(arithmetic: Arithmetic, wide: Node, offset: int, bits: int) -> Node:
    moved = arithmetic.binary(aten.add.Tensor, wide, _scalar(arithmetic, offset, wide))
    args = (moved, _scalar(arithmetic, bits, wide))
    return arithmetic.once(TOSA.shift_right.default, args, torch.int32, shape_of(wide))


def _scalar(arithmetic: Arithmetic, scalar: int, like: Node) -> Node:
    return arithmetic.constant(torch.tensor(scalar, dtype=torch.int32), len(shape_of(like)))


_Round = tuple[Callable[[Tensor], Tensor], Callable[[Arithmetic, Node, int], Node]]
_TRUNC: Final[_Round] = torch.trunc, _trunc


def _rounded(conversion: Conversion, value: Quantity, by: _Round, tables: bool = True) -> Quantity:
    """Returns integral values.

    Args:
        conversion: the state.
        value: the value.
        by: the function on values, and on integers with some bits after the point.
        tables: whether int8 values become a table.
    """
    function, compute = by
    if isinstance(value, Fixed):
        return Fixed(function(value.values))
    if isinstance(value, TableFunction):
        return TableFunction(value.source, function(value.values))
    if tables and value.is_narrow and value.dtype == torch.int8:
        return TableFunction(value.clamped(-math.inf, math.inf), function(value.values))
    bits = min(BITS - math.frexp(value.bound)[1], _MOST_FRACTION)
    if bits < 1:
        raise UnsupportedError(f"integers up to {value.bound:g}")
    arithmetic = conversion.arithmetic
    node = compute(arithmetic, arithmetic.accumulate(value, 2.0**-bits), bits)
    return Quantized(node, (1.0,), 0, math.ceil(value.bound) + 1)


def _rounding(by: _Round) -> Convert:
    def convert(conversion: Conversion, node: Node) -> Quantity:
        return _rounded(conversion, conversion.of(node.args[0]), by)

    return convert


def _sign(conversion: Conversion, node: Node) -> Quantity:
    """Clamps the integers of a value, in any scale, to integral values from -1 to 1."""
    value = conversion.of(node.args[0])
    if isinstance(value, Fixed):
        return Fixed(value.values.sign())
    wide = conversion.arithmetic.wide(value)
    return Quantized(wide.node, (1.0,), 0, wide.limit, low=-1.0, high=1.0)


def copy(conversion: Conversion, node: Node) -> Quantity | None:
    """Converts a cast to another dtype; integers are truncated, and saturate."""
    value, dtype = conversion.of(node.args[0]), dtype_of(node)
    if dtype.is_floating_point:
        return value
    if isinstance(value, TableFunction) and value.bound >= _MOST_ENTRY:
        raise UnsupportedError(f"a function with integers up to {value.bound:g}")
    integral = _rounded(conversion, value, _TRUNC, tables=value.bound <= _LIMITS[torch.int8].max)
    conversion.replaced[node] = as_integers(conversion, integral, dtype)
    return None


def as_integers(conversion: Conversion, value: Quantity, dtype: torch.dtype) -> Node:
    """Returns integral values as integers, which saturate."""
    found = torch.int32 if dtype == torch.int64 else dtype
    limits = _LIMITS.get(found)
    if limits is None:
        raise UnsupportedError(f"a conversion to {dtype}")
    arithmetic = conversion.arithmetic
    node = arithmetic.quantize(value, Quantization.full_range(found, 1.0))
    if dtype == found:
        return node
    val = arithmetic.builder.empty(value.shape, dtype)
    return arithmetic.builder.call(aten._to_copy.default, node, dtype=dtype, val=val)


ROUNDING: Final[Mapping[Any, Convert]] = {
    aten.floor.default: _rounding((torch.floor, _floor)),
    aten.ceil.default: _rounding((torch.ceil, _ceil)),
    aten.trunc.default: _rounding(_TRUNC),
    aten.round.default: _rounding((torch.round, _round)),
    aten.sign.default: _sign,
}
