# SPDX-License-Identifier: Apache-2.0
"""Selection between two values for targets without SELECT: products with 0 and 1, or sums with constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.integer.arithmetic import BITS
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.elementwise import similar
from delegatec.backends.arm.integer.masks import FAR, MASKS, bits_of, check_bits, integer, mask, record
from delegatec.backends.arm.integer.quantized_regions import is_bool, is_float
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize.value import Value
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten


def _where(conversion: Conversion, node: Node) -> Quantity | None:
    bound = bind(node)
    return _selected(conversion, node, bound["condition"], (bound["self"], bound["other"]))


def _masked_fill(conversion: Conversion, node: Node) -> Quantity | None:
    bound = bind(node)
    return _selected(conversion, node, bound["mask"], (bound["value"], bound["self"]))


def _selected(
    conversion: Conversion, node: Node, condition: Any, operands: tuple[Any, Any]
) -> Quantity | None:
    found, rank = mask(conversion, condition), len(shape_of(node))
    if is_float(node):
        values = [conversion.of(each) for each in operands]
        if isinstance(found, Fixed) and isinstance(values[0], Fixed):
            found, values = Fixed(1 - found.values), values[::-1]
        return _of_values(conversion, node, found, values)
    bits = bits_of(conversion, found, rank)
    if is_bool(node):
        check_bits(operands)
        x, y = (bits_of(conversion, mask(conversion, each), rank) for each in operands)
        return Quantized(_chosen(conversion, bits, x, y).node, (1.0,), 0, 1)
    (x, low, high), (y, least, most) = (integer(conversion, each, rank) for each in operands)
    is_near = max(high - least, most - low) < FAR
    result = _chosen(conversion, bits, x, y) if is_near else bits * x + (1 - bits) * y
    record(conversion, node, result, max(high, most, -low, -least))
    return None


def _of_values(
    conversion: Conversion, node: Node, condition: Quantized | Fixed, values: list[Quantity]
) -> Quantity:
    to, arithmetic = conversion.target(node), conversion.arithmetic
    if to is None or to.dtype == torch.int32:
        values = similar(values, 1 << 12)
        scale, limit = conversion.common_scale(values), (1 << BITS) - 1
    else:
        masked = _saturated(conversion, node, condition, values, to)
        if masked is not None:
            return masked
        values = [_with_parameters(conversion, each, to) for each in values]
        scale, limit = to.scale, to.limit
    x, y = (Value(arithmetic.builder, arithmetic.accumulate(each, scale)) for each in values)
    bits = bits_of(conversion, condition, len(shape_of(node)))
    return Quantized(_chosen(conversion, bits, x, y).node, (scale,), 0, limit)


def _chosen(conversion: Conversion, bits: Value, x: Value, y: Value) -> Value:
    """Returns x where bits are 1, else y."""
    other = conversion.constant(y.node)
    if other is not None and not bool(other.any()):
        return bits * x
    return y + bits * (x - y)


def _saturated(
    conversion: Conversion, node: Node, found: Quantized | Fixed, values: list[Quantity], to: Quantization
) -> Quantized | None:
    """Adds a constant mask that saturates masked elements to the minimum, as in attention; else None."""
    x, y = values
    if not isinstance(found, Fixed) or isinstance(x, Fixed) or not isinstance(y, Fixed):
        return None
    if bool((to.quantize(y.values) > to.low).any()):
        return None
    factor = -(-(to.high - to.low) // 128)
    rank = len(shape_of(node))
    offsets = conversion.arithmetic.constant(((found.values - 1) * 128).to(torch.int8), rank)
    added = Quantized(offsets, (to.scale * factor,), 0, 128)
    terms = (_with_parameters(conversion, x, to), added)
    first, second = (conversion.arithmetic.accumulate(each, to.scale) for each in terms)
    total = conversion.arithmetic.binary(aten.add.Tensor, first, second)
    limit = to.limit + 128 * factor
    return Quantized(total, to.scales, 0, limit, low=to.value(to.low))


def _with_parameters(conversion: Conversion, value: Quantity, to: Quantization) -> Quantity:
    """Returns a value that is exact in parameters."""
    if isinstance(value, Fixed):
        return Fixed((to.quantize(value.values).to(torch.float64) - to.zero_point) * to.scale)
    return conversion.quantized(value, to)


WITHOUT_BOOLS: Final[Mapping[Any, Convert]] = {
    **MASKS,
    aten.where.self: _where,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill.Tensor: _masked_fill,
}
"""Conversions of calls with bool operands or results."""
