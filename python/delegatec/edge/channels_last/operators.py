# SPDX-License-Identifier: Apache-2.0
"""Operators on images and volumes whose channels are the last dimension, for targets that have only those.

Elements after the last window are in none. Integers have zero points, and exact accumulators: int32 for int8
images, int64 for int16 ones. `weight_order` names the dimensions of a weight: output channels, height, width
and input channels of a group. A weight without "H" has kernels of one row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as f

_ZEROS: Final = "int x_zero=0, int weight_zero=0"
_ORDER: Final = 'str weight_order="OHWI"'
_SCHEMAS: Final = (
    # weight: [O, kW, I]
    "conv1d(Tensor x, Tensor weight, Tensor? bias, int[1] stride, int[2] padding, int[1] dilation, "
    "int groups) -> Tensor",
    # padding: top, bottom, left, right
    "conv2d(Tensor x, Tensor weight, Tensor? bias, int[2] stride, int[4] padding, int[2] dilation, "
    f"int groups, {_ZEROS}, *, {_ORDER}) -> Tensor",
    # weight: [O, kD, kH, kW, I]; padding: front, back, top, bottom, left, right
    "conv3d(Tensor x, Tensor weight, Tensor? bias, int[3] stride, int[6] padding, int[3] dilation, "
    f"{_ZEROS}) -> Tensor",
    # weight: [O, kW, I]; out_padding as below
    "conv_transpose1d(Tensor x, Tensor weight, Tensor? bias, int[1] stride, int[2] out_padding) -> Tensor",
    # out_padding is added to the result, or removed from it if negative; outputs in "O" are those of a group
    "conv_transpose2d(Tensor x, Tensor weight, Tensor? bias, int[2] stride, int[4] out_padding, "
    f"{_ZEROS}, *, int[2] dilation=1, int groups=1, {_ORDER}) -> Tensor",
    "max_pool2d(Tensor x, int[2] kernel, int[2] stride, int[4] padding, int[2] dilation=1) -> Tensor",
    # padding is not counted
    "avg_pool2d(Tensor x, int[2] kernel, int[2] stride, int[4] padding, int x_zero=0, int out_zero=0) "
    "-> Tensor",
    # scale: numerator and denominator of rows, then of columns; mode: "nearest" or "bilinear"
    "resize(Tensor x, int[4] scale, int[2] offset, int[2] border, str mode) -> Tensor",
)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolves rows."""
    return _convolve(x, _channels_first(weight), bias, stride, padding, dilation, groups, 0, 0)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    x_zero: int = 0,
    weight_zero: int = 0,
    *,
    weight_order: str = "OHWI",
) -> Tensor:
    """Convolves images."""
    kernel = _ordered(weight, weight_order, "OIHW")
    return _convolve(x, kernel, bias, stride, padding, dilation, groups, x_zero, weight_zero)


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    x_zero: int = 0,
    weight_zero: int = 0,
) -> Tensor:
    """Convolves volumes."""
    kernel = _channels_first(weight)
    return _convolve(x, kernel, bias, stride, padding, dilation, 1, x_zero, weight_zero)


def conv_transpose1d(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], out_padding: Sequence[int]
) -> Tensor:
    """Computes a transposed convolution of rows."""
    kernel = weight.permute(2, 0, 1)
    result = f.conv_transpose1d(_channels_first(x), kernel, None, tuple(stride))
    return _accumulated(f.pad(result, _innermost_first(out_padding)), x.dtype, bias)


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    out_padding: Sequence[int],
    x_zero: int = 0,
    weight_zero: int = 0,
    *,
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    weight_order: str = "OHWI",
) -> Tensor:
    """Computes a transposed convolution of images."""
    images = _channels_first(_centered(x, x_zero))
    kernel = _centered(_ordered(weight, weight_order, "IOHW"), weight_zero)
    result = f.conv_transpose2d(images, kernel, None, tuple(stride), 0, 0, groups, tuple(dilation))
    return _accumulated(f.pad(result, _innermost_first(out_padding)), x.dtype, bias)


def max_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
) -> Tensor:
    """Returns the maxima of windows; padding is less than all elements."""
    least = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    return _windows(x, kernel, stride, padding, least, dilation).amax((-2, -1))


def avg_pool2d(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    x_zero: int = 0,
    out_zero: int = 0,
) -> Tensor:
    """Returns the averages of windows; ties of integers are rounded away from zero."""
    inside = torch.ones((1, *x.shape[1:3], 1), dtype=torch.int64, device=x.device)
    counts = _windows(inside, kernel, stride, padding, 0).sum((-2, -1))
    if x.dtype.is_floating_point:
        return _windows(x, kernel, stride, padding, 0).sum((-2, -1)) / counts.to(x.dtype)
    sums = _windows(x.to(torch.int64) - x_zero, kernel, stride, padding, 0).sum((-2, -1))
    # the exponent of the smallest power of two that is not less than the count
    bits = sum((counts > 1 << bit).to(torch.int64) for bit in range(math.prod(kernel).bit_length()))
    multiplier = torch.div(((1 << 30) + 1) << bits, counts, rounding_mode="trunc")
    rounded = (sums * multiplier + (1 << (29 + bits))) >> (30 + bits)
    limits = torch.iinfo(x.dtype)
    return (rounded + out_zero).clamp(limits.min, limits.max).to(x.dtype)


def resize(
    x: Tensor, scale: Sequence[int], offset: Sequence[int], border: Sequence[int], mode: str
) -> Tensor:
    """Resizes images. Bilinear integers are not divided by the product of the numerators."""
    wide = x
    if mode == "bilinear" and not x.dtype.is_floating_point:
        wide = x.to(torch.int32 if x.dtype == torch.int8 else torch.int64)
    for dim in (1, 2):
        numerator, denominator = scale[2 * dim - 2 : 2 * dim]
        wide = _resized(wide, dim, numerator, denominator, offset[dim - 1], border[dim - 1], mode)
    return wide.contiguous()


def resized(size: int, numerator: int, denominator: int, offset: int, border: int) -> int:
    """Returns the size that a dimension is resized to; the division is exact in a valid call."""
    return ((size - 1) * numerator - offset + border) // denominator + 1


def _resized(
    x: Tensor, dim: int, numerator: int, denominator: int, offset: int, border: int, mode: str
) -> Tensor:
    size = x.shape[dim]
    position = torch.arange(resized(size, numerator, denominator, offset, border), device=x.device)
    position = position * denominator + offset
    low = torch.div(position, numerator, rounding_mode="floor")
    share = position - low * numerator
    low, high = low.clamp(0, size - 1), (low + 1).clamp(0, size - 1)
    if mode == "nearest":
        return x.index_select(dim, torch.where(share * 2 >= numerator, high, low))
    share = share.view(-1, *(1,) * (x.dim() - 1 - dim)).to(x.dtype)
    unit: Any = numerator
    if x.dtype.is_floating_point:
        share, unit = share / numerator, 1
    below, above = x.index_select(dim, low), x.index_select(dim, high)
    result: Tensor = below * (unit - share) + above * share
    return result


def _convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    x_zero: int,
    weight_zero: int,
) -> Tensor:
    # the zero point is subtracted first: padding is zero
    images = f.pad(_channels_first(_centered(x, x_zero)), _innermost_first(padding))
    kernel = _centered(weight, weight_zero)
    convolve: Any = {3: f.conv1d, 4: f.conv2d, 5: f.conv3d}[x.dim()]
    result = convolve(images, kernel, None, tuple(stride), 0, tuple(dilation), groups)
    return _accumulated(result, x.dtype, bias)


def _centered(x: Tensor, zero: int) -> Tensor:
    """Returns integers minus their zero point, as float64: all sums of their products are exact."""
    return x if x.dtype.is_floating_point else x.to(torch.float64) - zero


def _accumulated(result: Tensor, dtype: torch.dtype, bias: Tensor | None) -> Tensor:
    """Returns a result as accumulators for a dtype of images, with the channels last and the bias added."""
    result = result.movedim(1, -1)
    if not dtype.is_floating_point:
        result = result.to(torch.int32 if dtype == torch.int8 else torch.int64)
    return (result if bias is None else result + bias.to(result.dtype)).contiguous()


def _ordered(weight: Tensor, order: str, wanted: str) -> Tensor:
    """Returns a weight with its dimensions in another order; a height of 1 if it has none."""
    missing = [letter for letter in wanted if letter not in order]
    weight = weight.view(*weight.shape, *[1] * len(missing))
    return weight.permute([(order + "".join(missing)).index(letter) for letter in wanted])


def _channels_first(x: Tensor) -> Tensor:
    return x.movedim(-1, 1)


def _innermost_first(padding: Sequence[int]) -> list[int]:
    """Returns padding in the order of `torch.nn.functional.pad`."""
    pairs = [padding[start : start + 2] for start in range(0, len(padding), 2)]
    return [amount for pair in reversed(pairs) for amount in pair]


def _windows(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    value: Any,
    dilation: Sequence[int] = (1, 1),
) -> Tensor:
    """Returns [N, H, W, C, kH, kW]."""
    x = f.pad(x, [0, 0, *_innermost_first(padding)], value=value)
    for dim, (size, step, apart) in enumerate(zip(kernel, stride, dilation, strict=True), 1):
        x = x.unfold(dim, apart * (size - 1) + 1, step)[..., ::apart]
    return x


_FUNCTIONS: Final = (
    *(conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d),
    *(max_pool2d, avg_pool2d, resize),
)
_LIBRARY: Final[Any] = torch.library.Library("delegatec_nhwc", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, _function in zip(_SCHEMAS, _FUNCTIONS, strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")

NHWC: Final = torch.ops.delegatec_nhwc
