# SPDX-License-Identifier: Apache-2.0
"""Quantisation as PT2E writes it, in plain arithmetic.

The runtime's kernels for these operators are in a library of their own, which a program cannot count on.
A quantised model so runs anywhere, with its numbers; what makes it fast is a delegate that knows the pattern.
"""

from __future__ import annotations

from typing import Final

import torch

# Registers torch.ops.quantized_decomposed.
import torch.ao.quantization.fx._decomposed
from torch import Tensor

from delegatec.edge.decompositions.rule import FunctionTable

quantized = torch.ops.quantized_decomposed


def _quantize(
    x: Tensor, scale: float | Tensor, zero_point: int | Tensor, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    x = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    return torch.clamp(torch.round(x * (1.0 / scale)) + zero_point, low, high).to(dtype)


def _dequantize(
    x: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    x = x.to(out_dtype or torch.float32)
    return (x if zero_point is None else x - zero_point) * scale


def _along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Values of channels, in a shape that broadcasts along the axis."""
    shape = [1] * x.dim()
    shape[axis] = -1
    return values.reshape(shape)


def _quantize_per_channel(
    x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, low: int, high: int, dtype: torch.dtype
) -> Tensor:
    return _quantize(x, _along(scales, x, axis), _along(zero_points, x, axis), low, high, dtype)


def _dequantize_per_channel(
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    low: int,
    high: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    zeros = None if zero_points is None else _along(zero_points, x, axis)
    result = _dequantize(x, _along(scales, x, axis), zeros, low, high, dtype, out_dtype=out_dtype)
    return result.to(out_dtype or torch.float32)


FUNCTIONS: Final[FunctionTable] = {
    **dict.fromkeys(
        (
            quantized.quantize_per_tensor.default,
            quantized.quantize_per_tensor.tensor,
            quantized.quantize_per_tensor.tensor2,
        ),
        _quantize,
    ),
    **dict.fromkeys(
        (
            quantized.dequantize_per_tensor.default,
            quantized.dequantize_per_tensor.tensor,
            quantized.dequantize_per_tensor.tensor2,
        ),
        _dequantize,
    ),
    quantized.quantize_per_channel.default: _quantize_per_channel,
    quantized.dequantize_per_channel.default: _dequantize_per_channel,
}
