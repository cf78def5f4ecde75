# SPDX-License-Identifier: Apache-2.0
"""Pools over images as channels-last ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.convolutions import FLOATS
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit, fitted
from delegatec.edge.legalize.constraints import only_first_result, operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pooling import images
from delegatec.edge.legalize.rules.windows import Windows, windows_of
from delegatec.edge.legalize.value import Number, Value, value_of

aten = torch.ops.aten

_FLOATS_8: Final = (torch.float8_e4m3fn, torch.float8_e5m2)


def maxima(x: Value, windows: Sequence[Windows]) -> Value:
    """Returns the maxima of windows of [N, H, W, C]."""
    if any(axis.dilation > 1 for axis in windows):
        return _dilated(x, windows)
    return _pool(NHWC.max_pool2d.default, x, windows)


def averages(x: Value, windows: Sequence[Windows], zeros: tuple[int, int] = (0, 0)) -> Value:
    """Returns the averages of windows of [N, H, W, C]; padding is not counted.

    Args:
        x: the images.
        windows: per dimension.
        zeros: zero points of the images and of the result.
    """
    return _pool(NHWC.avg_pool2d.default, x, windows, *(zeros if any(zeros) else ()))


def padded(x: Value, windows: Sequence[Windows], value: Number, whole: bool) -> tuple[Value, list[Windows]]:
    """Makes padding elements of [N, H, W, C], which averages count.

    Args:
        x: the images.
        windows: per dimension.
        value: the elements.
        whole: whether to add all elements of windows beyond the border, too, or only those that ATen counts.

    Returns:
        The images, and the windows over them.
    """
    amounts = [(axis.before, axis.after if whole else axis.padding) for axis in windows]
    if any(map(any, amounts)):
        x = x.pad([0, 0, *amounts[1], *amounts[0]], value)
    return x, [
        Windows(axis.size + before + after, axis.outputs, axis.kernel, axis.stride)
        for axis, (before, after) in zip(windows, amounts, strict=True)
    ]


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
    x, windows = padded(x, windows, least, whole=True)[0], windows
    for dim, axis in enumerate(windows, 1):
        span = (axis.outputs - 1) * axis.stride + 1
        starts = range(0, axis.kernel * axis.dilation, axis.dilation)
        x = reduce(Value.maximum, [x.slice(dim, start, start + span, axis.stride) for start in starts])
    return x


def _max_pool2d(builder: Builder, node: Node) -> list[Node | None]:
    x = channels_last(images(value_of(builder, bind(node)["self"])))
    result = channels_first(maxima(x, windows_of(node, 2)))
    return [result.view(*tensors(node.meta["val"])[0].shape).node, None]


def _avg_pool2d(builder: Builder, node: Node) -> Node:
    bound, windows = bind(node), windows_of(node, 2)
    x = channels_last(images(value_of(builder, bound["self"])))
    divisor = bound["divisor_override"]
    if divisor or bound["count_include_pad"]:
        x, windows = padded(x, windows, 0, whole=bool(divisor))
    result = averages(x, windows)
    if divisor:
        result = result * (math.prod(axis.kernel for axis in windows) / divisor)
    return channels_first(result).view(*node.meta["val"].shape).node


_FLOAT: Final = operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")

REWRITES: Final = (
    Rewrite(
        aten.max_pool2d_with_indices.default,
        _max_pool2d,
        (only_first_result("there is no operator for the indices."),),
        note="channels last; with dilation, the elementwise maximum of slices",
    ),
    Rewrite(
        aten.avg_pool2d.default,
        _avg_pool2d,
        (_FLOAT,),
        note="channels last; padding that counts is added to the images, a divisor is a factor",
    ),
)
