# SPDX-License-Identifier: Apache-2.0
"""XNNPACK's operations without an equal in ATen, as operators of the private program.

Images are [N, H, W, C]. Weights have ATen's order of dimensions, so that a program refers to those of the
model: they are moved to XNNPACK's order when they are written. Padding is top, bottom, left, right. Windows
need not divide the padded size: elements after the last window are in none. The operators of
`edge/channels_last` are others in all of this: weights in NHWC order, exact windows, zero points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as f

_SCHEMAS: Final = (
    # weight: [O, I / groups, kH, kW], or [O, I / groups, kW] for kernels of one row
    "conv2d(Tensor x, Tensor weight, Tensor? bias, int[2] stride, int[4] padding, int[2] dilation, "
    "int groups) -> Tensor",
    # weight: [I, O / groups, kH, kW], or [I, O / groups, kW]; padding is removed from the result
    "conv_transpose2d(Tensor x, Tensor weight, Tensor? bias, int[2] stride, int[4] padding, int[2] dilation, "
    "int groups, int[2] output_padding) -> Tensor",
    "max_pool2d(Tensor x, int[2] kernel, int[2] stride, int[4] padding, int[2] dilation) -> Tensor",
    # padding is not counted
    "avg_pool2d(Tensor x, int[2] kernel, int[2] stride, int[4] padding) -> Tensor",
    # positions follow from the sizes alone
    "resize_bilinear(Tensor x, int[2] sizes, bool align_corners) -> Tensor",
    # slope: a number per element of the last dimension
    "prelu(Tensor x, Tensor slope) -> Tensor",
    # dims: how many of the last dimensions are a row
    "rounded(Tensor x, int dims) -> Tensor",
    # weights: [outputs, size of the dimension]
    "mixed(Tensor x, Tensor weights, int dim) -> Tensor",
)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Convolves images."""
    image = f.pad(_channels_first(x), _innermost_first(padding))
    return _channels_last(f.conv2d(image, _planes(weight), bias, stride, 0, dilation, groups))


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    output_padding: Sequence[int],
) -> Tensor:
    """Computes a transposed convolution of images."""
    image, kernel = _channels_first(x), _planes(weight)
    whole = f.conv_transpose2d(image, kernel, bias, tuple(stride), 0, tuple(output_padding), groups, dilation)
    return _channels_last(f.pad(whole, [-amount for amount in _innermost_first(padding)]))


def max_pool2d(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """Returns the maxima of windows; padding is less than all elements."""
    image = f.pad(_channels_first(x), _innermost_first(padding), value=-math.inf)
    return _channels_last(f.max_pool2d(image, tuple(kernel), tuple(stride), 0, tuple(dilation)))


def avg_pool2d(x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]) -> Tensor:
    """Returns the averages of windows."""
    image = _channels_first(x)
    inside = torch.ones((1, 1, *image.shape[2:]), dtype=x.dtype, device=x.device)
    sums, counts = (
        f.avg_pool2d(f.pad(each, _innermost_first(padding)), tuple(kernel), tuple(stride), divisor_override=1)
        for each in (image, inside)
    )
    return _channels_last(sums / counts)


def resize_bilinear(x: Tensor, sizes: Sequence[int], align_corners: bool) -> Tensor:
    """Resizes images by linear interpolation."""
    resized = f.interpolate(_channels_first(x), tuple(sizes), mode="bilinear", align_corners=align_corners)
    return _channels_last(resized)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Multiplies negative elements by the slope of their channel."""
    return torch.where(x > 0, x, x * slope)


def rounded(x: Tensor, dims: int) -> Tensor:
    """Rounds numbers to 256 levels between the least and the largest of each row."""
    inside = list(range(x.dim() - dims, x.dim()))
    least = x.amin(inside, keepdim=True).clamp(max=0)
    largest = x.amax(inside, keepdim=True).clamp(min=0)
    step = torch.where(largest == least, torch.ones_like(largest), (largest - least) / 255)
    zero = (-128 - least / step).round().clamp(-128, 127)
    return ((x / step + zero).round().clamp(-128, 127) - zero) * step


def mixed(x: Tensor, weights: Tensor, dim: int) -> Tensor:
    """Returns weighted sums along a dimension."""
    return (x.movedim(dim, -1) @ weights.mT).movedim(-1, dim).contiguous()


def _planes(weight: Tensor) -> Tensor:
    return weight if weight.dim() == 4 else weight.unsqueeze(2)


def _channels_first(x: Tensor) -> Tensor:
    return x.movedim(-1, 1)


def _channels_last(x: Tensor) -> Tensor:
    return x.movedim(1, -1).contiguous()


def _innermost_first(padding: Sequence[int]) -> list[int]:
    """Returns padding in the order of `torch.nn.functional.pad`."""
    top, bottom, left, right = padding
    return [left, right, top, bottom]


_FUNCTIONS: Final = (
    conv2d,
    conv_transpose2d,
    max_pool2d,
    avg_pool2d,
    resize_bilinear,
    prelu,
    rounded,
    mixed,
)
_LIBRARY: Final[Any] = torch.library.Library("delegatec_xnnpack", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, _function in zip(_SCHEMAS, _FUNCTIONS, strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")

XNNPACK: Final = torch.ops.delegatec_xnnpack
