# SPDX-License-Identifier: Apache-2.0
"""Emission of integer arithmetic: rescales values, and converts them to quantized values or accumulators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.dialect import INT48, TOSA
from delegatec.backends.arm.integer.features import ALL, Features
from delegatec.backends.arm.integer.fixed_point import FixedPoint, fixed_point
from delegatec.backends.arm.integer.values import (
    NARROW,
    Fixed,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

BITS: Final = 28
"""Accumulators that are added, or moved, are below 2^28: sums of several and any later scale fit int32."""
INT32: Final = Quantization.full_range(torch.int32, 1.0)

# A value of that many bits is rounded to a bound that follows from those of its operands. After many
# operations without parameters, as those of a determinant, the bound is far beyond the range.
_MANY_BITS: Final = 20
_LEAST_VALUES: Final = 64


class Arithmetic:
    """Creates calls on integers before the builder's anchor; equal ones are shared.

    Args:
        builder: of the program.
        features: of the target.
    """

    def __init__(self, builder: Builder, features: Features = ALL) -> None:
        self.builder = builder
        self.wide_tables: Final = features.wide_tables
        self.bools: Final = features.bools
        self.wide_products: Final = features.wide_products
        self._shared: dict[Any, Node] = {}

    # ---- calls -------------------------------------------------------------------------------------------

    def call(self, target: Any, *args: Any, dtype: torch.dtype, shape: Sequence[int], **kwargs: Any) -> Node:
        """Creates a call with a result of a dtype and shape."""
        return self.builder.call(target, *args, val=self.builder.empty(shape, dtype), **kwargs)

    def constant(self, values: Tensor, rank: int = 0) -> Node:
        """Adds a constant with at least a given rank."""
        shape = [1] * (rank - values.dim()) + list(values.shape)
        return self.builder.constant(values.reshape(shape))

    def binary(self, target: Any, x: Node, y: Node, dtype: torch.dtype = torch.int32) -> Node:
        """Creates a call on two tensors that broadcast."""
        shape = torch.broadcast_shapes(shape_of(x), shape_of(y))  # type: ignore[no-untyped-call]
        return self.call(target, x, y, dtype=dtype, shape=shape)

    # ---- scales ------------------------------------------------------------------------------------------

    def quantize(self, value: Quantity, to: Quantization) -> Node:
        """Returns the quantized values of a value."""
        if isinstance(value, Fixed):
            return self.builder.constant(to.quantize(value.values))
        if isinstance(value, TableFunction):
            return self._table(value, to)
        low, high = _limits(value, to)
        node = self._rescale(value, to)
        limits = torch.iinfo(to.dtype)
        if low <= limits.min and high >= limits.max:
            return node
        if to.dtype in NARROW:
            return self.call(aten.clamp.default, node, low, high, dtype=to.dtype, shape=value.shape)
        return self._within(node, low, high)

    def accumulate(self, value: Quantity, scale: float) -> Node:
        """Returns a value as int32 with a scale, and the zero point 0."""
        if isinstance(value, Fixed):
            limit = (1 << 31) - 1
            quantized_values = (
                torch.round(value.values.to(torch.float64) / scale).nan_to_num(0).clamp(-limit, limit)
            )
            return self.builder.constant(quantized_values.to(torch.int32))
        if isinstance(value, TableFunction):
            value = self.evaluated(value)
        return self.quantize(value, Quantization.full_range(torch.int32, scale))

    def wide(self, value: Quantity, bits: int = BITS) -> Quantized:
        """Returns a value as int32 with one scale, below a power of two.

        Quantized values keep their scale if possible.
        """
        if isinstance(value, TableFunction):
            value = self.evaluated(value)
        if isinstance(value, Quantized) and value.axis is None and value.limit < 1 << bits:
            if value.dtype == torch.int32 and not value.zero and value.low == -math.inf == -value.high:
                return value
            scale = value.scale[0]
        else:
            scale = (value.bound or 1.0) / ((1 << bits) - 1)
        node = self.accumulate(value, scale)
        return Quantized(node, (scale,), 0, math.ceil(value.bound / scale))

    def evaluated(self, value: TableFunction) -> Quantized:
        """Returns a function of quantized values with 16-bit precision."""
        scale = (value.bound or 1.0) / 32767
        to = Quantization.full_range(torch.int16, scale)
        if value.source.dtype == torch.int16:
            entries = self.builder.constant(to.quantize(value.values))
            node = self.once(TOSA.table.default, (value.source.node, entries), torch.int32, value.shape)
            return Quantized(node, (scale / 128,), 0, 32768 * 128)
        exact = _exact(value)
        if exact is not None:
            return Quantized(self._table(value, exact), exact.scales, exact.zero_point, 255)
        # two int8 tables: the high part, and the unsigned low part less 128
        quantized_values = to.quantize(value.values).to(torch.int32)
        parts = []
        for part, factor, zero in (
            (quantized_values >> 8, 256, 0),
            ((quantized_values & 255) - 128, 1, -128),
        ):
            table = self.builder.constant(part.to(torch.int8))
            args = (value.source.node, table)
            node = self.once(TOSA.table.default, args, torch.int8, value.shape)
            parts.append(self.accumulate(Quantized(node, (1.0,), zero, 255), 1 / factor))
        return Quantized(self.binary(aten.add.Tensor, parts[0], parts[1]), (scale,), 0, 32768)

    def _table(self, value: TableFunction, to: Quantization) -> Node:
        """Returns a function of quantized values as quantized values."""
        source = value.source
        if to.axis is not None or to.dtype not in NARROW:
            return self.quantize(self.evaluated(value), to)
        # The precision of a result with more bits is that of the quantized operands.
        low, high = (to.value(end) for end in (to.low, to.high))
        undefined = to.value(to.nan)
        shape, values = value.shape, value.values.nan_to_num(undefined, high, low)
        if source.dtype == to.dtype == torch.int16:
            return self._wide_table(source, values, to)
        value = TableFunction(source, values.clamp(low, high))
        entries = self.builder.constant(to.quantize(value.values))
        if source.dtype == torch.int8:
            if to.dtype != torch.int8:
                return self.quantize(self.evaluated(value), to)
            return self.once(TOSA.table.default, (source.node, entries), torch.int8, shape)
        return self.quantize(self.evaluated(value), to)

    def _wide_table(self, source: Quantized, values: Tensor, to: Quantization) -> Node:
        """Returns a function of int16 as int16.

        The scale of entries has room for knots beyond the range, to which lines lead from inside of it.
        """
        low, high = to.value(to.low), to.value(to.high)
        near = values.clamp(2 * low, 2 * high)
        first, second = near[:-1], near[1:]
        touches = (first.minimum(second) < high) & (first.maximum(second) > low)
        ends = torch.cat([first[touches], second[touches]]).abs()
        bound = float(ends.max()) if ends.numel() else 0.0
        scale = to.scale if bound <= -low else bound / ((1 << 15) - 1)
        entries = self.builder.constant(Quantization.full_range(torch.int16, scale).quantize(values))
        node = self.once(TOSA.table.default, (source.node, entries), torch.int32, source.shape)
        return self.quantize(Quantized(node, (scale / 128,), 0, 32768 * 128), to)

    def _rescale(self, value: Quantized, to: Quantization) -> Node:
        """Rescales a value to other parameters, saturated to the dtype, without its limits."""
        axis = value.axis if value.axis is not None else to.axis
        count = max(len(value.scale), len(to.scales))
        scales, targets = (list(each) * (count // len(each)) for each in (value.scale, to.scales))
        if value.zero and value.dtype != torch.int8:
            centered = self.once(
                aten.sub.Tensor,
                (self._plain(value, torch.int32), self._scalar(value.zero, value)),
                torch.int32,
                value.shape,
            )
            value = Quantized(centered, value.scale, 0, value.limit, value.axis)
        if scales == targets and (value.dtype, value.zero) == (to.dtype, to.zero_point):
            return value.node
        if to.zero_point and to.dtype != torch.int8:
            wide = replace(INT32, scales=to.scales, axis=to.axis)
            shifted = self.once(
                aten.add.Tensor,
                (self._rescale(value, wide), self._scalar(to.zero_point, value)),
                torch.int32,
                value.shape,
            )
            return self._plain(Quantized(shifted, (1.0,), 0, 0), to.dtype)
        factors = [a / b for a, b in zip(scales, targets, strict=True)]
        if value.limit >= 1 << _MANY_BITS and to.high - to.low < _LEAST_VALUES * min(factors):
            rest = (to.high - to.low) / min(factors)
            raise UnsupportedError(
                f"{rest:.2g} values of its range remain after operations without parameters"
            )
        if to.dtype in NARROW:
            # with a larger factor, the result saturates as well
            factors = [min(factor, 1 << 18) for factor in factors]
        found = fixed_point(factors, 15 if value.dtype == INT48 else 31)
        if found is None:
            raise UnsupportedError(f"a scale of {max(factors):g} is beyond 2^29")
        if value.limit >= found.limit:
            if value.dtype == INT48:
                raise UnsupportedError("an accumulator of int48 may exceed the range of RESCALE")
            bound = found.limit - 1
            if value.dtype in (torch.int16, torch.int32):
                node = self._within(self._plain(value, torch.int32), -bound, bound)
                value = Quantized(node, value.scale, 0, bound, value.axis)
            elif bound < 255:
                raise UnsupportedError(f"a scale of {max(factors):g} is beyond the range of RESCALE")
        return self._scaled(value, found, to, axis)

    def _scaled(self, value: Quantized, by: FixedPoint, to: Quantization, axis: int | None) -> Node:
        per_channel = len(by.multiplier) > 1
        args = (
            value.node,
            by.multiplier,
            by.shift,
            value.zero,
            to.zero_point,
            axis if per_channel and axis is not None else -1,
            per_channel,
            "single",
            to.dtype,
        )
        return self.once(TOSA.rescale.default, args, to.dtype, value.shape)

    def _plain(self, value: Quantized, dtype: torch.dtype) -> Node:
        """Converts the integers to another dtype, with saturation."""
        if value.dtype == dtype:
            return value.node
        one = FixedPoint([1 << 30], [30])
        to = Quantization.full_range(dtype, 1.0)
        return self._scaled(Quantized(value.node, (1.0,), 0, 0), one, to, None)

    def _within(self, node: Node, low: int, high: int) -> Node:
        """Clamps int32 values."""
        rank = len(shape_of(node))
        limits = torch.iinfo(torch.int32)
        for target, bound, is_needed in (
            (aten.maximum.default, low, low > limits.min),
            (aten.minimum.default, high, high < limits.max),
        ):
            if is_needed:
                scalar = self.constant(torch.tensor(bound, dtype=torch.int32), rank)
                node = self.once(target, (node, scalar), torch.int32, shape_of(node))
        return node

    def _scalar(self, scalar: int, like: Quantized) -> Node:
        return self.constant(torch.tensor(scalar, dtype=torch.int32), len(like.shape))

    def once(self, target: Any, args: Any, dtype: torch.dtype, shape: Sequence[int]) -> Node:
        """Creates a call, or reuses an equal one."""
        key = (target, tuple(tuple(each) if isinstance(each, list) else each for each in args))
        if key not in self._shared:
            self._shared[key] = self.call(target, *args, dtype=dtype, shape=shape)
        return self._shared[key]

    def forget(self) -> None:
        """Shares no earlier calls from now on, since the anchor is moved before them."""
        self._shared.clear()

    # ---- boundary ----------------------------------------------------------------------------------------

    def signed(self, node: Node) -> Node:
        """Returns uint8 values as int8 values, which are less by 128."""
        if dtype_of(node) != torch.uint8:
            return node
        one = [1 << 30], [30]
        args = (node, *one, 128, 0, -1, False, "single", torch.int8, True)
        return self.once(TOSA.rescale.default, args, torch.int8, shape_of(node))

    def unsigned(self, node: Node) -> Node:
        """Returns int8 values as uint8 values, which are greater by 128."""
        one = [1 << 30], [30]
        args = (node, *one, 0, 128, -1, False, "single", torch.uint8, False, True)
        return self.once(TOSA.rescale.default, args, torch.uint8, shape_of(node))


def _limits(value: Quantized, to: Quantization) -> tuple[int, int]:
    """Returns the minimum and maximum quantized value of a clamped value."""
    low, high = to.low, to.high
    for scale in {*to.scales}:
        if value.low > -math.inf:
            low = max(low, min(to.high, round(value.low / scale) + to.zero_point))
        if value.high < math.inf:
            high = min(high, max(to.low, round(value.high / scale) + to.zero_point))
    return low, high


def _exact(value: TableFunction) -> Quantization | None:
    """Returns parameters of int8 with which a table is exact; None if there are none."""
    values = value.values
    if not bool(values.isfinite().all()):
        return None
    scale = value.source.scale[0]
    quantized_values = values / scale
    integral = torch.round(quantized_values)
    if not torch.equal(integral, quantized_values) or float(integral.max() - integral.min()) > 255:
        return None
    zero = int(-128 - float(integral.min()))
    return Quantization.full_range(torch.int8, scale, zero_point=zero) if -128 <= zero <= 127 else None
