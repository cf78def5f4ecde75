# SPDX-License-Identifier: Apache-2.0
"""Functions of two values, whose shapes are broadcast.

Quantized values are added, multiplied and scaled by slopes as integers (XNNPACK's kernels qs8-vadd, qs8-vmul
and qs8-vprelu); the other functions dequantize them (reference/binary-elementwise.cc).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import NodeT

from delegatec.backends.xnnpack.reference.run import Run, Semantics, limits_of, quantized_limits, write_real
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, Tensor, reject

_Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_QuantizedFunction = Callable[[Tensor, Tensor, Tensor], torch.Tensor]
# Bits of the larger multiplier of a sum.
_MULTIPLIER_BITS: Final = 20


def _binary(function: _Function, of_quantized: _QuantizedFunction | None = None) -> Semantics:
    def semantics(run: Run, operation: Any, node: NodeT) -> None:
        first, second = run.operand(int(operation.input1Id)), run.operand(int(operation.input2Id))
        result = run.result(int(operation.outputId))
        shape = _broadcast(run.elements(first.id).shape, run.elements(second.id).shape)
        run.check_size(shape, f"value {result.id}")
        if result.data_type in QUANTIZED and of_quantized is not None:
            run.write(result.id, of_quantized(first, second, result))
        elif result.is_float or result.data_type in QUANTIZED:
            write_real(run, result.id, function(first.real(), second.real()))
        else:
            run.write(result.id, function(run.elements(first.id), run.elements(second.id)))
        if limits_of(node) != (-math.inf, math.inf):
            # the runtime appends a Clamp
            value = run.elements(result.id)
            bounds = quantized_limits(node, result) if result.data_type in QUANTIZED else limits_of(node)
            run.write(result.id, value.float().clamp(*bounds))

    return semantics


def _broadcast(one: torch.Size, other: torch.Size) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(one, other))  # type: ignore[no-untyped-call]
    except RuntimeError:
        reject(f"operands of the shapes {list(one)} and {list(other)} cannot be broadcast")


def _centered(tensor: Tensor) -> torch.Tensor:
    assert tensor.value is not None
    return tensor.value.to(torch.int64) - tensor.one_zero_point


def _sum(sign: int) -> _QuantizedFunction:
    """Rescales both operands to the result's scale, by multipliers with one right shift."""

    def add(first: Tensor, second: Tensor, result: Tensor) -> torch.Tensor:
        ratios = [torch.tensor(each.one_scale) / result.one_scale for each in (first, second)]
        shift = _MULTIPLIER_BITS - math.frexp(max(map(float, ratios)))[1] + 1
        one, other = (int((ratio * 2.0**shift).round()) for ratio in ratios)
        total = _centered(first) * one + _centered(second) * (sign * other)
        quantized_values = ((total + (1 << (shift - 1))) >> shift) + result.one_zero_point
        return quantized_values.clamp(result.least, result.most)

    return add


def _rounded(value: torch.Tensor, result: Tensor) -> torch.Tensor:
    zero = result.one_zero_point
    return value.clamp(result.least - zero, result.most - zero).round() + zero


def _product(first: Tensor, second: Tensor, result: Tensor) -> torch.Tensor:
    scale = torch.tensor(first.one_scale) * second.one_scale / result.one_scale
    return _rounded((_centered(first) * _centered(second)).float() * scale, result)


def _slopes(first: Tensor, second: Tensor, result: Tensor) -> torch.Tensor:
    positive = torch.tensor(first.one_scale) / result.one_scale
    x, slope = _centered(first), _centered(second)
    scaled = torch.where(x < 0, (x * slope).float() * (positive * second.one_scale), x.float() * positive)
    return _rounded(scaled, result)


def _quotient(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Returns quotients: of integers with a remainder that is not negative, or 0 for a division by 0."""
    if one.dtype.is_floating_point:
        return one / other
    divisor = torch.where(other == 0, 1, other).to(torch.int64)
    wide = one.to(torch.int64)
    found = torch.where(
        divisor > 0, wide.div(divisor, rounding_mode="floor"), -wide.div(-divisor, rounding_mode="floor")
    )
    return torch.where(other == 0, 0, found)


SEMANTICS: Final[dict[str, Semantics]] = {
    "Add": _binary(torch.add, _sum(1)),
    "Divide": _binary(_quotient),
    "Maximum": _binary(torch.maximum),
    "Minimum": _binary(torch.minimum),
    "Multiply": _binary(torch.mul, _product),
    "Prelu": _binary(lambda x, slope: torch.where(x < 0, x * slope, x), _slopes),
    "Subtract": _binary(torch.sub, _sum(-1)),
}
