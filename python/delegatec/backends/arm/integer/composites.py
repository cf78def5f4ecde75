# SPDX-License-Identifier: Apache-2.0
"""Operators that quantizers do not decompose, as several integer operators."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.backends.arm.integer import floating
from delegatec.backends.arm.integer.arithmetic import BITS
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.elementwise import add, multiply
from delegatec.backends.arm.integer.functions import function_of
from delegatec.backends.arm.integer.reductions import total
from delegatec.backends.arm.integer.values import (
    Fixed,
    Floating,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.legalize.value import Value, cat
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

_BITS: Final = 15
"""Of exponentials."""
_MOST_WINDOWS: Final = 64


def _softmax(conversion: Conversion, node: Node) -> Quantity:
    """Divides exponentials, which are at most 1, by their sum."""
    below, dim = _below_largest(conversion, node)
    parts = _exponentials(conversion, below)
    sums = total(conversion, parts, [dim], keepdim=True, is_mean=False)
    # the largest exponential is 1
    inverse = floating.reciprocal(conversion, sums, signed=False, least=0.99)
    return replace(floating.times(conversion, inverse, parts), low=0.0, high=1.0)


def _log_softmax(conversion: Conversion, node: Node) -> Quantity:
    below, dim = _below_largest(conversion, node)
    parts = _exponentials(conversion, below)
    sums = total(conversion, parts, [dim], keepdim=True, is_mean=False)
    return add(conversion, [below, floating.logarithm(conversion, sums)], (1, -1))


def _below_largest(conversion: Conversion, node: Node) -> tuple[Quantized, int]:
    """Returns the differences from the largest element along a dimension, and that dimension."""
    bound = bind(node)
    value = conversion.of(bound["self"])
    if not shape_of(node):
        raise UnsupportedError("softmax of a tensor without dimensions")
    if isinstance(value, (Fixed, TableFunction)):
        value = conversion.narrow(value, bound["self"])
    dim = positive(bound["dim"], len(value.shape))
    if value.shape[dim] >= 1 << (31 - _BITS):
        raise UnsupportedError(f"softmax of {value.shape[dim]} elements")
    arithmetic = conversion.arithmetic
    is_byte = value.is_narrow and value.dtype == torch.int8
    quantized = replace(value, low=-math.inf, high=math.inf) if is_byte else arithmetic.wide(value, BITS)
    reduced = [1 if each == dim else size for each, size in enumerate(quantized.shape)]
    most = arithmetic.call(
        aten.amax.default, quantized.node, [dim], True, dtype=quantized.dtype, shape=reduced
    )
    first, largest = (
        arithmetic.accumulate(each, quantized.scale[0]) for each in (quantized, replace(quantized, node=most))
    )
    limit = 255 if is_byte else 2 * quantized.limit
    return Quantized(arithmetic.binary(aten.sub.Tensor, first, largest), quantized.scale, 0, limit), dim


def _exponentials(conversion: Conversion, below: Quantized) -> Quantized:
    """Returns the exponentials of values that are at most 0."""
    arithmetic = conversion.arithmetic
    unit = 1 / ((1 << _BITS) - 1)
    if below.limit == 255:
        # from -255 to 0, as int8 values from -128 to 127
        shifted = conversion.quantized(
            below, Quantization.full_range(torch.int8, *below.scale, zero_point=127)
        )
        found = TableFunction(shifted, torch.exp(shifted.values))
        return Quantized(arithmetic.accumulate(found, unit), (unit,), 0, 1 << _BITS)
    value = floating.exponential(conversion, below, 0.0)
    node = arithmetic.binary(TOSA.shift_right.default, value.mantissa, value.exponent)
    return Quantized(node, (value.scale,), 0, 1 << (_BITS + 1))


def _standardized(conversion: Conversion, x: Quantity, dims: Sequence[int], eps: float) -> Quantized:
    """Returns values with the mean 0 and the variance 1 along dimensions."""
    centered, variance = _variance(conversion, x, dims, math.prod(x.shape[dim] for dim in dims))
    shifted = add(conversion, [variance, _scalar(eps)], (1, 1))
    found = floating.times(conversion, floating.inverse_root(conversion, shifted), centered)
    bound = math.sqrt(math.prod(x.shape[dim] for dim in dims))
    return replace(found, low=-bound, high=bound)


def _variance(
    conversion: Conversion, x: Quantity, dims: Sequence[int], count: float
) -> tuple[Quantized, Quantity]:
    """Returns the differences from the mean, and the sum of their squares by a count."""
    mean = total(conversion, x, [*dims], keepdim=True, is_mean=True)
    centered = add(conversion, [x, mean], (1, -1))
    squares = multiply(conversion, centered, centered)
    sums = total(conversion, squares, [*dims], keepdim=True, is_mean=False)
    return centered, multiply(conversion, sums, _scalar(1 / count))


def _scalar(value: float) -> Fixed:
    return Fixed(torch.tensor(value, dtype=torch.float64))


def _affine(conversion: Conversion, x: Quantity, weight: Any, bias: Any, shape: Sequence[int]) -> Quantity:
    """Multiplies by a weight and adds a bias, each of a shape; None is neither."""
    for operand, is_weight in ((weight, True), (bias, False)):
        if operand is None:
            continue
        value = conversion.of(operand)
        if not isinstance(value, Fixed):
            raise UnsupportedError(f"{operand} is not a constant")
        part = Fixed(value.values.to(torch.float64).reshape(tuple(shape)))
        x = multiply(conversion, x, part) if is_weight else add(conversion, [x, part], (1, 1))
    return x


def _viewed(conversion: Conversion, quantized: Quantized, shape: Sequence[int]) -> Quantized:
    node = Value(conversion.arithmetic.builder, quantized.node).view(*shape).node
    return replace(quantized, node=node)


def _first(convert: Convert) -> Convert:
    """Returns the conversion of a call whose first result alone is used."""

    def converted(conversion: Conversion, node: Node) -> None:
        items = [user for user in node.users if user.target is operator.getitem]
        if any(user.args[1] for user in items):
            raise UnsupportedError("its statistics are used")
        found = convert(conversion, node)
        for user in items:
            assert found is not None
            conversion.quantities[user] = found

    return converted


def _layer_norm(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    x = _accumulators(conversion, bound["input"])
    sizes = [int(each) for each in bound["normalized_shape"]]
    dims = range(len(x.shape) - len(sizes), len(x.shape))
    found = _standardized(conversion, x, dims, bound["eps"])
    return _affine(conversion, found, bound["weight"], bound["bias"], sizes)


def _group_norm(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    x = _accumulators(conversion, bound["input"])
    batch, channels = x.shape[:2]
    groups = bound["group"] if "group" in bound else bound["num_groups"]
    grouped = _viewed(conversion, x, (batch, groups, math.prod(x.shape[1:]) // groups))
    found = _viewed(conversion, _standardized(conversion, grouped, [2], bound["eps"]), x.shape)
    return _affine(conversion, found, bound["weight"], bound["bias"], (channels, *[1] * (len(x.shape) - 2)))


def _batch_norm(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    statistics = [conversion.of(bound[name]) for name in ("running_mean", "running_var")]
    mean, variance = (
        each.values.to(torch.float64) if isinstance(each, Fixed) else None for each in statistics
    )
    if mean is None or variance is None:
        raise UnsupportedError("its statistics are not constants")
    x = conversion.of(bound["input"])
    shape = (-1, *[1] * (len(x.shape) - 2))
    scale = torch.rsqrt(variance + bound["eps"])
    centered = add(conversion, [x, Fixed(mean.reshape(shape))], (1, -1))
    found = multiply(conversion, centered, Fixed(scale.reshape(shape)))
    return _affine(conversion, found, bound["weight"], bound["bias"], shape)


def _accumulators(conversion: Conversion, operand: Node) -> Quantized:
    """Returns a value that is not a constant, without limits."""
    value = conversion.of(operand)
    if isinstance(value, Fixed):
        raise UnsupportedError(f"{operand.name} is a constant")
    if isinstance(value, Quantized) and value.is_narrow and value.low == -math.inf == -value.high:
        return value
    return conversion.arithmetic.wide(value)


def _var(conversion: Conversion, node: Node) -> Quantity | Floating:
    bound = bind(node)
    x = _accumulators(conversion, bound["self"])
    rank = len(x.shape)
    dims = sorted(positive(dim, rank) for dim in (bound["dim"] or range(rank)))
    correction = bound.get("correction", int(bound.get("unbiased", True)))
    count = math.prod(x.shape[dim] for dim in dims) - (1 if correction is None else correction)
    if count <= 0:
        raise UnsupportedError("the variance of one element")
    _, variance = _variance(conversion, x, dims, count)
    assert isinstance(variance, Quantized)
    return _viewed(conversion, variance, shape_of(node))


def _glu(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    x = _accumulators(conversion, bound["self"])
    dim = positive(bound["dim"], len(x.shape))
    half = x.shape[dim] // 2
    source = Value(conversion.arithmetic.builder, x.node)
    first, second = (replace(x, node=source.slice(dim, start, start + half).node) for start in (0, half))
    gate = function_of(conversion, second, bound["self"], torch.sigmoid)
    return multiply(conversion, first, gate)


def _adaptive_avg_pool2d(conversion: Conversion, node: Node) -> Quantity:
    """Returns the mean of each window; those of one size are other calls."""
    x = _accumulators(conversion, bind(node)["self"])
    rank = len(x.shape)
    sizes = shape_of(node)[-2:]
    if math.prod(sizes) > _MOST_WINDOWS:
        raise UnsupportedError(f"{math.prod(sizes)} windows of several sizes")
    arithmetic = conversion.arithmetic
    source = Value(arithmetic.builder, x.node)
    scale = x.scale[0] / (1 << (BITS - x.limit.bit_length()))
    rows = []
    for top, bottom in _windows(x.shape[-2], sizes[0]):
        row = source.slice(rank - 2, top, bottom)
        cells = []
        for left, right in _windows(x.shape[-1], sizes[1]):
            part = replace(x, node=row.slice(rank - 1, left, right).node)
            mean = total(conversion, part, [rank - 2, rank - 1], keepdim=True, is_mean=True)
            cells.append(Value(arithmetic.builder, arithmetic.accumulate(mean, scale)))
        rows.append(cat(cells, rank - 1))
    return Quantized(cat(rows, rank - 2).node, (scale,), 0, 1 << BITS)


def _windows(size: int, count: int) -> list[tuple[int, int]]:
    return [(each * size // count, -(-(each + 1) * size // count)) for each in range(count)]


COMPOSITES: Final[Mapping[Any, Convert]] = {
    aten._softmax.default: _softmax,
    aten._log_softmax.default: _log_softmax,
    aten.native_layer_norm.default: _first(_layer_norm),
    aten.native_group_norm.default: _first(_group_norm),
    aten._native_batch_norm_legit_no_training.default: _first(_batch_norm),
    aten.var.correction: _var,
    aten.var.dim: _var,
    aten.glu.default: _glu,
    aten._adaptive_avg_pool2d.default: _adaptive_avg_pool2d,
}
