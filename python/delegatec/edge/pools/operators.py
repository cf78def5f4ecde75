# SPDX-License-Identifier: Apache-2.0
"""Operators on windows along some dimensions of a tensor, which has any others in any order.

Elements after the last window are in none. `padding` has the amounts before and after each of these
dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as f

_AXES: Final = "Tensor x, int[] dims, int[] kernel, int[] stride, int[] padding"
_SCHEMAS: Final = (
    # padding is less than all elements
    f"maxima({_AXES}, int[] dilation) -> Tensor",
    # padding is not counted
    f"averages({_AXES}) -> Tensor",
    # the elements of windows are the last dimensions
    f"windows({_AXES}, int[] dilation, Scalar value) -> Tensor",
)


def maxima(
    x: Tensor,
    dims: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Returns the maxima of windows."""
    return windows(x, dims, kernel, stride, padding, dilation, least(x.dtype)).amax(_last(dims))


def averages(
    x: Tensor, dims: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """Returns the averages of windows."""
    inside = torch.ones([size if dim in dims else 1 for dim, size in enumerate(x.shape)], device=x.device)
    own = (dims, kernel, stride, padding, [1] * len(dims), 0)
    counts = windows(inside, *own).sum(_last(dims))
    return windows(x, *own).sum(_last(dims)) / counts.to(x.dtype)


def windows(
    x: Tensor,
    dims: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    value: Any,
) -> Tensor:
    """Returns the elements of windows in further dimensions, and a value for those in the padding."""
    amounts = [0] * (2 * x.dim())
    for index, dim in enumerate(dims):
        start = 2 * (x.dim() - 1 - dim)
        amounts[start : start + 2] = padding[2 * index : 2 * index + 2]
    x = f.pad(x, amounts, value=value)
    for dim, size, step, apart in zip(dims, kernel, stride, dilation, strict=True):
        x = x.unfold(dim, apart * (size - 1) + 1, step)[..., ::apart]
    return x.contiguous()


def least(dtype: torch.dtype) -> float:
    """Returns a value that no element of a dtype is less than."""
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _last(dims: Sequence[int]) -> list[int]:
    return [*range(-len(dims), 0)]


_LIBRARY: Final[Any] = torch.library.Library("delegatec_pools", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, _function in zip(_SCHEMAS, (maxima, averages, windows), strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeImplicitAutograd")

POOLS: Final = torch.ops.delegatec_pools
