# SPDX-License-Identifier: Apache-2.0
"""Comparisons, extrema and selection between two values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeGuard

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.arm.integer.arithmetic import BITS
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.elementwise import similar
from delegatec.backends.arm.integer.values import Fixed, Quantity, Quantized, UnsupportedError
from delegatec.edge.arguments import bind, shape_of

aten = torch.ops.aten


def _extreme(target: Any) -> Convert:
    is_maximum = target is aten.maximum.default

    def convert(conversion: Conversion, node: Node) -> Quantity:
        bound = bind(node)
        operands = [conversion.of(bound[name]) for name in ("self", "other")]
        # a constant beyond the other end is the result
        values = similar(operands, 2.0, high=not is_maximum, low=is_maximum)
        scale = conversion.common_scale(values)
        first, second = (conversion.arithmetic.accumulate(each, scale) for each in values)
        result = conversion.arithmetic.binary(target, first, second)
        return Quantized(result, (scale,), 0, (1 << BITS) - 1)

    return convert


def _comparison(target: OpOverload) -> Convert:
    def convert(conversion: Conversion, node: Node) -> None:
        first, second = in_one_scale(conversion, node)
        conversion.replaced[node] = conversion.arithmetic.binary(target, first, second, torch.bool)

    return convert


def in_one_scale(conversion: Conversion, node: Node) -> tuple[Node, Node]:
    """Returns the operands of a comparison as int32 in one scale, below 2^28."""
    bound = bind(node)
    operands = [conversion.of(bound[name]) for name in ("self", "other")]
    if any(isinstance(each, Fixed) and bool(each.values.isnan().any()) for each in operands):
        raise UnsupportedError("a comparison with NaN")
    rank = len(shape_of(node))
    source = next((each for each in operands if _is_dequantized(each)), None)
    if source is not None and any(isinstance(each, Fixed) for each in operands):
        first, second = (
            conversion.arithmetic.constant(_doubled(each, source), rank)
            if isinstance(each, Fixed)
            else conversion.arithmetic.accumulate(each, source.scale[0] / 2)
            for each in operands
        )
        return first, second
    values = similar(operands, 2.0)
    scale = conversion.common_scale(values)
    first, second = (
        conversion.arithmetic.constant(_rounded(each, scale), rank)
        if isinstance(each, Fixed)
        else conversion.arithmetic.accumulate(each, scale)
        for each in values
    )
    return first, second


def _is_dequantized(value: Quantity) -> TypeGuard[Quantized]:
    """Whether a value is that of int8 or int16, without limits."""
    return isinstance(value, Quantized) and value.is_narrow and value.low == -math.inf == -value.high


def _doubled(value: Fixed, source: Quantized) -> Tensor:
    """Returns constants as integers, less the zero point, times two. Odd ones are between two integers.

    They have the digits of float32, so that a constant that stands for a quantized value is equal to it.
    """
    limits = torch.iinfo(source.dtype)
    values = source.of(torch.arange(limits.min, limits.max + 1))
    constants = value.values.to(torch.float64)
    index = torch.searchsorted(values, constants)
    is_equal = values[index.clamp(max=len(values) - 1)] == constants
    found = 2 * (index + limits.min - source.zero) - is_equal.logical_not().to(torch.int64)
    return found.to(torch.int32)


def _rounded(value: Fixed, scale: float) -> Tensor:
    quantized_values = value.values.to(torch.float64) / scale
    return torch.round(quantized_values).clamp(-(1 << 30), 1 << 30).to(torch.int32)


def _where(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    values = [conversion.of(bound[name]) for name in ("self", "other")]
    condition = conversion.node(bound["condition"])
    arithmetic = conversion.arithmetic
    to = conversion.target(node)
    if to is not None:
        nodes = [arithmetic.quantize(each, to) for each in values]
        result = Quantized(nodes[0], to.scales, to.zero_point, to.limit)
    else:
        values = similar(values, 1 << 12)
        scale = conversion.common_scale(values)
        nodes = [arithmetic.accumulate(each, scale) for each in values]
        result = Quantized(nodes[0], (scale,), 0, (1 << BITS) - 1)
    call = arithmetic.call(aten.where.self, condition, *nodes, dtype=result.dtype, shape=shape_of(node))
    return replace(result, node=call)


SELECTION: Final[Mapping[Any, Convert]] = {
    **{
        getattr(getattr(aten, name), variant): _comparison(getattr(aten, name).Tensor)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
        for variant in ("Tensor", "Scalar")
    },
    aten.maximum.default: _extreme(aten.maximum.default),
    aten.minimum.default: _extreme(aten.minimum.default),
    aten.where.self: _where,
}
