# SPDX-License-Identifier: Apache-2.0
"""Pools for targets whose windows divide the padded size exactly, and have no dilation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import torch

from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.convolutions import FLOATS
from delegatec.edge.channels_last.rewrites.images import emit, fitted
from delegatec.edge.channels_last.rewrites.pools import Pools, padded
from delegatec.edge.legalize.constraints import only_first_result, operand_dtypes
from delegatec.edge.legalize.rules.windows import Windows
from delegatec.edge.legalize.value import Value

_FLOATS_8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)


def maxima(x: Value, windows: Sequence[Windows], _: object = None) -> Value:
    """Returns the maxima of windows of [N, H, W, C]; their padding follows from them."""
    if any(axis.dilation > 1 for axis in windows):
        return _dilated(x, windows)
    return _pool(NHWC.max_pool2d.default, x, windows)


def averages(
    x: Value, windows: Sequence[Windows], _: object = None, zeros: tuple[int, int] = (0, 0)
) -> Value:
    """Returns the averages of windows of [N, H, W, C]. Padding, which follows from them, is not counted.

    Args:
        x: the images.
        windows: per dimension.
        zeros: zero points of the images and of the result.
    """
    return _pool(NHWC.avg_pool2d.default, x, windows, *(zeros if any(zeros) else ()))


def _pool(operator: Any, x: Value, windows: Sequence[Windows], *zeros: int) -> Value:
    padding: list[int] = []
    for dim, axis in enumerate(windows, 1):
        x, after = fitted(x, dim, axis.outputs, axis.kernel, axis.stride, axis.before)
        padding += (axis.before, after)
    sizes = ([getattr(axis, name) for axis in windows] for name in ("kernel", "stride"))
    shape = (x.shape[0], *(axis.outputs for axis in windows), x.shape[3])
    return emit(operator, x, *sizes, padding, *zeros, shape=shape)


def _dilated(x: Value, windows: Sequence[Windows]) -> Value:
    """Returns the elementwise maximum of the elements of each window, by rows and then by columns."""
    if x.dtype in _FLOATS_8:  # Targets pool them, but have no such maximum.
        return _dilated(x.to(torch.float16), windows).to(x.dtype)
    least = -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
    x, _ = padded(x, windows, [(axis.before, axis.after) for axis in windows], least)
    for dim, axis in enumerate(windows, 1):
        span = (axis.outputs - 1) * axis.stride + 1
        starts = range(0, axis.kernel * axis.dilation, axis.dilation)
        x = reduce(Value.maximum, [x.slice(dim, start, start + span, axis.stride) for start in starts])
    return x


_ONLY_FIRST: Final = only_first_result("there is no operator for the indices.")
_OF_FLOATS: Final = (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),)

REWRITES: Final = Pools(maxima, averages, _ONLY_FIRST, _OF_FLOATS).rewrites()
