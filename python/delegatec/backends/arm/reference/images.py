# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and resizing of channels-last images and volumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, NanMode, ResizeMode
from torch.nn import functional as f

_SUMS: Final = {DType.INT32: torch.int32, DType.INT48: torch.int64}
"""Type of integer accumulators -> dtype of the result."""


def _centered(x: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """float64 has exact sums of all products of integers with 8 and 16 bits; torch has none of float8."""
    if x.dtype.is_floating_point:
        return x.to(torch.float32) if x.itemsize == 1 else x
    return x.to(torch.float64) - zero.to(torch.float64)


def _first(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(-1, 1)


def _amounts(padding: Sequence[int]) -> list[int]:
    pairs = [list(padding[first : first + 2]) for first in range(0, len(padding), 2)]
    return [amount for pair in pairs[::-1] for amount in pair]


def _summed(sums: torch.Tensor, bias: torch.Tensor, acc_type: int) -> torch.Tensor:
    """Adds the bias to [N, C, ...], and returns [N, ..., C]."""
    sums = sums.movedim(1, -1)
    return (sums.to(_SUMS.get(acc_type, bias.dtype)) + bias).contiguous()


def _convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    x_zero: torch.Tensor,
    weight_zero: torch.Tensor,
    *,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    acc_type: int,
    **_: Any,
) -> torch.Tensor:
    images = f.pad(_first(_centered(x, x_zero)), _amounts(pad))
    convolve = f.conv2d if x.dim() == 4 else f.conv3d
    kernel = _first(_centered(weight, weight_zero))
    sums = convolve(images, kernel, None, tuple(stride), 0, tuple(dilation))
    return _summed(sums, bias, acc_type)


def _depthwise(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    x_zero: torch.Tensor,
    weight_zero: torch.Tensor,
    *,
    pad: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    acc_type: int,
    **_: Any,
) -> torch.Tensor:
    rows, columns, channels, multiplier = weight.shape
    kernel = _centered(weight, weight_zero).permute(2, 3, 0, 1)
    kernel = kernel.reshape(channels * multiplier, 1, rows, columns)
    images = f.pad(_first(_centered(x, x_zero)), _amounts(pad))
    sums = f.conv2d(images, kernel, None, tuple(stride), 0, tuple(dilation), channels)
    return _summed(sums, bias, acc_type)


def _transposed(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    x_zero: torch.Tensor,
    weight_zero: torch.Tensor,
    *,
    out_pad: Sequence[int],
    stride: Sequence[int],
    acc_type: int,
    **_: Any,
) -> torch.Tensor:
    kernel = _centered(weight, weight_zero).permute(3, 0, 1, 2)
    sums = f.conv_transpose2d(_first(_centered(x, x_zero)), kernel, None, tuple(stride))
    return _summed(f.pad(sums, _amounts(out_pad)), bias, acc_type)


def _windows(
    x: torch.Tensor, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], value: Any
) -> torch.Tensor:
    x = f.pad(x, [0, 0, *_amounts(pad)], value=value)
    return x.unfold(1, kernel[0], stride[0]).unfold(2, kernel[1], stride[1])


def _max_pool(
    x: torch.Tensor, *, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], nan_mode: int
) -> torch.Tensor:
    if not x.dtype.is_floating_point:
        return _windows(x, kernel, stride, pad, torch.iinfo(x.dtype).min).amax((-2, -1))
    windows = _windows(x.to(torch.float32), kernel, stride, pad, -math.inf)
    found = windows.amax((-2, -1))
    if nan_mode == NanMode.IGNORE:
        # only padding and NaN in a window: the padding does not count
        others = torch.where(windows.isnan(), -math.inf, windows).amax((-2, -1))
        inside = _windows(torch.ones_like(x[:1, :, :, :1], dtype=torch.float32), kernel, stride, pad, 0)
        is_empty = windows.isnan().sum((-2, -1)) == inside.sum((-2, -1))
        found = torch.where(is_empty, math.nan, others)
    return found.to(x.dtype)


def _avg_pool(
    x: torch.Tensor,
    x_zero: torch.Tensor,
    out_zero: torch.Tensor,
    *,
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    **_: Any,
) -> torch.Tensor:
    counts = _windows(torch.ones(1, *x.shape[1:3], 1, dtype=torch.int64), kernel, stride, pad, 0).sum(
        (-2, -1)
    )
    if x.dtype.is_floating_point:
        sums = _windows(x.to(torch.float32), kernel, stride, pad, 0).sum((-2, -1))
        return (sums / counts).to(x.dtype)
    sums = _windows(x.to(torch.int64) - x_zero, kernel, stride, pad, 0).sum((-2, -1))
    scaled = torch.empty_like(sums)
    for count in {*counts.flatten().tolist()}:
        # a 31-bit reciprocal, rounded to nearest
        exponent = (count - 1).bit_length()
        multiplier = ((1 << 30) + 1 << exponent) // count
        shift = 30 + exponent
        rounded = sums * multiplier + (1 << shift - 1) >> shift
        scaled = torch.where(counts == count, rounded, scaled)
    limits = torch.iinfo(x.dtype)
    return (scaled + out_zero).clamp(limits.min, limits.max).to(x.dtype)


def _resize(
    x: torch.Tensor, scale: Sequence[int], offset: Sequence[int], border: Sequence[int], *, mode: int
) -> torch.Tensor:
    result = x
    if mode == ResizeMode.BILINEAR and not x.dtype.is_floating_point:
        result = x.to(torch.int32 if x.dtype == torch.int8 else torch.int64)
    for dim in (1, 2):
        numerator, denominator = scale[2 * dim - 2 : 2 * dim]
        result = _resize_axis(result, dim, numerator, denominator, offset[dim - 1], border[dim - 1], mode)
    return result.contiguous()


def _resize_axis(
    x: torch.Tensor, dim: int, numerator: int, denominator: int, offset: int, border: int, mode: int
) -> torch.Tensor:
    last = x.shape[dim] - 1
    outputs = (last * numerator - offset + border) // denominator + 1
    first = torch.arange(outputs) * denominator + offset
    quotient = torch.div(first, numerator, rounding_mode="floor")
    rest = first - quotient * numerator
    low, high = (each.clamp(0, last) for each in (quotient, quotient + 1))
    if mode == ResizeMode.NEAREST:
        return x.index_select(dim, torch.where(2 * rest >= numerator, high, low))
    shape = [-1 if each == dim else 1 for each in range(x.dim())]
    weight, unit = rest.view(shape).to(x.dtype), numerator
    if x.dtype.is_floating_point:
        weight, unit = weight / numerator, 1
    return x.index_select(dim, low) * (unit - weight) + x.index_select(dim, high) * weight


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "CONV2D": _convolution,
    "CONV3D": _convolution,
    "DEPTHWISE_CONV2D": _depthwise,
    "TRANSPOSE_CONV2D": _transposed,
    "MAX_POOL2D": _max_pool,
    "AVG_POOL2D": _avg_pool,
    "RESIZE": _resize,
}
