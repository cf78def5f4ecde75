# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic of elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.integer.arithmetic import BITS
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.rounding import ROUNDING, copy
from delegatec.backends.arm.integer.values import (
    Fixed,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.arguments import bind, broadcast
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_MOST_RATIO: Final = 1 << 7
"""Of the bounds of a constant and of quantized values, so that their common scale is precise."""


def _relu(conversion: Conversion, node: Node) -> Quantity:
    return _clamped(conversion, node, 0.0, math.inf)


def _clamp(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    low, high = (bound[name] for name in (("min", "max") if "min" in bound else ("min_val", "max_val")))
    low, high = (limit if limit is not None else end for limit, end in ((low, -math.inf), (high, math.inf)))
    if isinstance(low, Node) or isinstance(high, Node):
        limits = [_scalar(conversion, each) for each in (low, high)]
        low, high = limits
    if low > high:
        low = high
    return _clamped(conversion, node, low, high)


def _scalar(conversion: Conversion, operand: Any) -> float:
    value = conversion.of(operand)
    if not isinstance(value, Fixed) or value.scalar is None:
        raise UnsupportedError("bounds that are not constant scalars")
    return value.scalar


def _clamped(conversion: Conversion, node: Node, low: float, high: float) -> Quantity:
    value = conversion.of(node.args[0])
    if isinstance(value, Quantized):
        return value.clamped(low, high)
    if isinstance(value, TableFunction):
        return TableFunction(value.source, value.values.clamp(low, high))
    return Fixed(value.values.clamp(low, high))


def _sum(sign: int) -> Convert:
    """Returns the conversion of self + sign * alpha * other."""

    def convert(conversion: Conversion, node: Node) -> Quantity:
        bound = bind(node)
        alpha = float(bound.get("alpha", 1)) * sign
        operands = [(bound["self"], 1.0), (bound["other"], alpha)]
        if node.target is aten.rsub.Scalar:
            operands = [(bound["other"], 1.0), (bound["self"], -float(bound["alpha"]))]
        values, signs = [], []
        for operand, factor in operands:
            value = conversion.of(operand)
            values.append(_times(value, abs(factor)))
            signs.append(factor)
        to = conversion.target(node)
        return add(conversion, _within_reach(values, to), signs, _reach(values, to))

    return convert


def _reach(values: Sequence[Quantity], to: Quantization | None) -> float:
    """Returns a magnitude of constants beyond which a sum saturates; 0.0 if its parameters are not known."""
    if to is None or len(to.scales) > 1:
        return 0.0
    return to.limit * to.scale + sum(each.bound for each in values if not isinstance(each, Fixed))


def _within_reach(values: Sequence[Quantity], to: Quantization | None) -> Sequence[Quantity]:
    """Clamps terms whose range would make their common scale coarse, where the sum saturates."""
    if to is None or len(to.scales) > 1:
        return values
    found: list[Quantity] = []
    most = to.limit * to.scale
    for value in values:
        reach = most + sum(each.bound for each in values if each is not value)
        is_coarse = value.bound > max(reach, to.scale * (1 << BITS - 8))
        found.append(value.clamped(-reach, reach) if isinstance(value, Quantized) and is_coarse else value)
    return found


def add(
    conversion: Conversion, values: Sequence[Quantity], signs: Sequence[float], reach: float = 0.0
) -> Quantized:
    """Returns the sum or difference of two values.

    Args:
        conversion: of the graph.
        values: the terms.
        signs: their signs.
        reach: constants up to this magnitude are exact.
    """
    values = similar(_as_quantized(conversion, values), 1 << 16, reach)
    scale = conversion.common_scale(values, len(values))
    arithmetic = conversion.arithmetic
    first, second = (arithmetic.accumulate(each, scale) for each in values)
    if signs[0] < 0 < signs[1]:
        first, second, signs = second, first, (1, -1)
    assert signs[0] > 0
    node = arithmetic.binary(aten.add.Tensor if signs[1] >= 0 else aten.sub.Tensor, first, second)
    bound = sum(each.bound for each in values)
    return Quantized(node, (scale,), 0, math.ceil(bound / scale))


def _as_quantized(conversion: Conversion, values: Sequence[Quantity]) -> list[Quantity]:
    """Quantizes constants if another value has quantized values of their dtype.

    NPUs compute on int8 at once, but on int32 only after they rescale the other value.
    """
    others = [each for each in values if isinstance(each, Quantized) and each.is_narrow]
    rank = max(len(each.shape) for each in values)
    found: list[Quantity] = []
    for value in values:
        to = value.parameters if isinstance(value, Fixed) else None
        is_alike = to is not None and any(
            each.dtype == to.dtype and value.bound <= each.bound * _MOST_RATIO for each in others
        )
        if to is None or to.axis is not None or not is_alike:
            found.append(value)
            continue
        assert isinstance(value, Fixed)
        node = conversion.arithmetic.constant(to.quantize(value.values), rank)
        found.append(Quantized(node, to.scales, to.zero_point, to.limit))
    return found


def similar(
    values: Sequence[Quantity], ratio: float, reach: float = 0.0, low: bool = True, high: bool = True
) -> list[Quantity]:
    """Clamps constants that are far below or above all other values, such as masks.

    Args:
        values: constants and others.
        ratio: constants are clamped at the largest bound of the others, times this.
        reach: they are not clamped below this magnitude.
        low: whether they are clamped at the lower end.
        high: whether they are clamped at the upper end.
    """
    others = max((each.bound for each in values if not isinstance(each, Fixed)), default=math.inf)
    most = max(others * ratio, reach)
    limits = -most if low else -math.inf, most if high else math.inf
    return [
        Fixed(each.values.to(torch.float64).clamp(*limits)) if isinstance(each, Fixed) and most > 0 else each
        for each in values
    ]


def _times(value: Quantity, factor: float) -> Quantity:
    """Returns the product with a non-negative scalar."""
    if factor == 1.0:
        return value
    if isinstance(value, Fixed):
        return Fixed(value.values.to(torch.float64) * factor)
    if isinstance(value, TableFunction):
        return TableFunction(value.source, value.values * factor)
    if factor == 0.0:
        return replace(value, low=0.0, high=0.0)
    return replace(
        value,
        scale=tuple(each * factor for each in value.scale),
        low=value.low * factor,
        high=value.high * factor,
    )


def multiply(conversion: Conversion, x: Quantity, y: Quantity) -> Quantity:
    """Returns a product of values that broadcast."""
    for value, other in ((x, y), (y, x)):
        if isinstance(other, Fixed) and other.scalar is not None:
            shape = broadcast(value.shape, other.shape)
            if shape == value.shape:
                return scaled(conversion, value, other.scalar)
    if isinstance(x, Fixed) and isinstance(y, Fixed):
        return Fixed(x.values * y.values)
    first, second = _factors(conversion, x, y)
    node = conversion.arithmetic.binary(aten.mul.Tensor, first.node, second.node)
    return Quantized(node, (first.scale[0] * second.scale[0],), 0, first.limit * second.limit)


def _factors(conversion: Conversion, x: Quantity, y: Quantity) -> tuple[Quantized, Quantized]:
    """Returns operands whose product fits int32."""
    found = []
    for value in _as_quantized(conversion, (x, y)):
        if isinstance(value, Fixed):
            scale = (value.bound or 1.0) / 32767
            node = conversion.arithmetic.accumulate(value, scale)
            found.append(Quantized(node, (scale,), 0, 32767))
        else:
            found.append(conversion.arithmetic.wide(value, 15 if _is_wide(value) else 16))
    if found[0].limit * found[1].limit >= 1 << 31:
        found = [conversion.arithmetic.wide(each, 15) for each in found]
    return found[0], found[1]


def _is_wide(value: Quantity) -> bool:
    return isinstance(value, Quantized) and value.limit >= 1 << 16


def scaled(conversion: Conversion, value: Quantity, factor: float) -> Quantity:
    """Returns the product with a scalar."""
    if factor >= 0:
        return _times(value, factor)
    return negated(conversion, _times(value, -factor))


def negated(conversion: Conversion, value: Quantity) -> Quantity:
    """Returns the negated value."""
    if isinstance(value, Fixed):
        return Fixed(-value.values)
    if isinstance(value, TableFunction):
        return TableFunction(value.source, -value.values)
    if value.is_narrow and value.dtype == torch.int8:
        return TableFunction(replace(value, low=-math.inf, high=math.inf), -value.values)
    wide = conversion.arithmetic.wide(value)
    zero = conversion.arithmetic.constant(torch.tensor(0, dtype=torch.int32), len(wide.shape))
    node = conversion.arithmetic.binary(aten.sub.Tensor, zero, wide.node)
    return Quantized(node, wide.scale, 0, wide.limit)


def _negated(conversion: Conversion, node: Node) -> Quantity:
    return negated(conversion, conversion.of(node.args[0]))


def _absolute(conversion: Conversion, node: Node) -> Quantity:
    wide = conversion.arithmetic.wide(conversion.of(node.args[0]))
    result = conversion.arithmetic.call(aten.abs.default, wide.node, dtype=torch.int32, shape=wide.shape)
    return Quantized(result, wide.scale, 0, wide.limit)


_SUMS: Final = {
    aten.add.Tensor: _sum(1),
    aten.add.Scalar: _sum(1),
    aten.sub.Tensor: _sum(-1),
    aten.sub.Scalar: _sum(-1),
    aten.rsub.Scalar: _sum(1),
}
CHEAP: Final[Mapping[Any, Convert]] = {
    aten.relu.default: _relu,
    aten.hardtanh.default: _clamp,
    aten.clamp.default: _clamp,
    aten._to_copy.default: copy,
}
"""Conversions without calls, or with fewer than a table."""

ELEMENTWISE: Final[Mapping[Any, Convert]] = {
    **_SUMS,
    **ROUNDING,
    aten.neg.default: _negated,
    aten.abs.default: _absolute,
}
