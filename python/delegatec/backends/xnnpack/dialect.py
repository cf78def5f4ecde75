# SPDX-License-Identifier: Apache-2.0
"""XNNPACK's operations that neither ATen nor `edge/channels_last` has, as operators of a private program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as f

_SCHEMAS: Final = (
    # x: zeros and ones
    "as_bool(Tensor x) -> Tensor",
    # images: [N, H, W, C]; sample positions follow from the sizes alone
    "resize_bilinear(Tensor x, int[2] sizes, bool align_corners) -> Tensor",
    # images: [N, H, W, C]; windows do not overlap. Maxima, and indices that count windows column by column
    "argmax_pool2d(Tensor x, int[2] kernel) -> (Tensor, Tensor)",
    # integral floats as int64, which the runtime computes as int32
    "to_index(Tensor x) -> Tensor",
    # slope: a value per element of the last dimension
    "prelu(Tensor x, Tensor slope) -> Tensor",
    # dims: how many of the last dimensions form a row
    "quantize_dynamically(Tensor x, int dims) -> Tensor",
    # [.., m, k] and [.., n, k], of which the leading dimensions broadcast
    "matmul_transposed(Tensor x, Tensor y) -> Tensor",
    # weights: [outputs, size of the dimension]
    "matmul_along_dim(Tensor x, Tensor weights, int dim) -> Tensor",
)


def as_bool(x: Tensor) -> Tensor:
    """Returns zeros and ones as bools, which the delegate represents by them."""
    return x != 0


def resize_bilinear(x: Tensor, sizes: Sequence[int], align_corners: bool) -> Tensor:
    """Resizes images by linear interpolation."""
    images = x.movedim(-1, 1)
    resized = f.interpolate(images, tuple(sizes), mode="bilinear", align_corners=align_corners)
    return resized.movedim(1, -1).contiguous()


def argmax_pool2d(x: Tensor, kernel: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns the maxima of windows, and their indices in the dtype of the maxima."""
    (rows, columns), (batch, height, width, channels) = kernel, x.shape
    down, across = height // rows, width // columns
    whole = x[:, : down * rows, : across * columns].reshape(batch, down, rows, across, columns, channels)
    windows = whole.permute(0, 1, 3, 4, 2, 5).reshape(batch, down, across, rows * columns, channels)
    maxima, index = windows.max(3)
    return maxima, index.to(x.dtype)


def to_index(x: Tensor) -> Tensor:
    """Converts to int64."""
    return x.to(torch.int64)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Multiplies negative elements by the slope of their channel."""
    return torch.where(x > 0, x, x * slope)


def quantize_dynamically(x: Tensor, dims: int) -> Tensor:
    """Quantizes to 256 values between the least and the largest of each row."""
    inside = list(range(x.dim() - dims, x.dim()))
    least = x.amin(inside, keepdim=True).clamp(max=0)
    largest = x.amax(inside, keepdim=True).clamp(min=0)
    scale = torch.where(largest == least, torch.ones_like(largest), (largest - least) / 255)
    zero = (-128 - least / scale).round().clamp(-128, 127)
    return ((x / scale + zero).round().clamp(-128, 127) - zero) * scale


def matmul_transposed(x: Tensor, y: Tensor) -> Tensor:
    """Multiplies by the transposed matrices of a batch."""
    return x @ y.mT


def matmul_along_dim(x: Tensor, weights: Tensor, dim: int) -> Tensor:
    """Returns weighted sums along a dimension."""
    return (x.movedim(dim, -1) @ weights.mT).movedim(-1, dim).contiguous()


_FUNCTIONS: Final = (
    as_bool,
    resize_bilinear,
    argmax_pool2d,
    to_index,
    prelu,
    quantize_dynamically,
    matmul_transposed,
    matmul_along_dim,
)
_LIBRARY: Final[Any] = torch.library.Library("delegatec_xnnpack", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, _function in zip(_SCHEMAS, _FUNCTIONS, strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")

XNNPACK: Final = torch.ops.delegatec_xnnpack
