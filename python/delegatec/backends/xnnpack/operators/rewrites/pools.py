# SPDX-License-Identifier: Apache-2.0
"""Pools over images as XNNPACK's, around which permutations move the channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.operators.rewrites.planes import batch, like
from delegatec.edge.arguments import bind, dtype_of, positive, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.adaptive import adaptive
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit
from delegatec.edge.legalize.constraints import only_first_result
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.rules.windows import Windows, windows_of
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

Pair = tuple[int, int]
"""Padding before and after the elements of a dimension."""

_CEIL: Final = Refusal(
    "argument", "the number of windows has another formula with ceil_mode, for sizes that vary"
)
_VARY: Final = Refusal("shape", "the windows follow from the sizes, which vary")


def maxima(x: Value, windows: Sequence[Windows], padding: Sequence[Pair]) -> Value:
    """Returns the maxima of windows of [N, H, W, C]."""
    return _pool(x, windows, padding, NHWC.max_pool2d.default, [axis.dilation for axis in windows])


def averages(x: Value, windows: Sequence[Windows], padding: Sequence[Pair]) -> Value:
    """Returns the averages of windows of [N, H, W, C]; padding is not counted."""
    if all(axis.outputs == 1 and axis.kernel == axis.size for axis in windows):
        return mean(x)
    return _pool(x, windows, padding, NHWC.avg_pool2d.default)


def mean(x: Value) -> Value:
    """Returns the mean of each channel, [N, 1, 1, C]."""
    return x.widened().mean([1, 2], keepdim=True).to(x.dtype)


def _pool(x: Value, windows: Sequence[Windows], padding: Sequence[Pair], operator: Any, *more: Any) -> Value:
    shape = (x.shape[0], *(axis.outputs for axis in windows), x.shape[3])
    if all(axis.kernel == 1 for axis in windows):  # the runtime has no such pool
        for dim, axis in enumerate(windows, 1):
            if axis.stride > 1:
                x = x.slice(dim, 0, (axis.outputs - 1) * axis.stride + 1, axis.stride)
        return x
    kernel, stride = ([getattr(axis, name) for axis in windows] for name in ("kernel", "stride"))
    amounts = [amount for pair in padding for amount in pair]
    return emit(operator, x, kernel, stride, amounts, *more, shape=shape)


def _padding(node: Node, windows: Sequence[Windows]) -> list[Pair] | None:
    """Returns the padding with which as many windows as ATen has fit; None if that depends on sizes."""
    if not bind(node)["ceil_mode"]:
        return [(axis.before, axis.padding) for axis in windows]
    if not is_dynamic(axis.size for axis in windows):
        return [(axis.before, axis.after) for axis in windows]
    # ATen has no window that starts in the padding behind the elements: none does here
    if any(axis.stride + axis.padding > axis.dilation * (axis.kernel - 1) + 1 for axis in windows):
        return None
    return [(axis.before, axis.padding + axis.stride - 1) for axis in windows]


def _max_pool2d(builder: Builder, node: Node) -> Any:
    source, windows = value_of(builder, bind(node)["self"]), windows_of(node, 2)
    padding = _padding(node, windows)
    if padding is None:
        return _CEIL
    result = channels_first(maxima(channels_last(batch(source)), windows, padding))
    return [like(result, source.rank).node, None]


def _max_pool3d(builder: Builder, node: Node) -> Any:
    """Pools rows and columns, and then the depth."""
    source, windows = value_of(builder, bind(node)["self"]), windows_of(node, 3)
    padding = _padding(node, windows)
    if is_dynamic(source.shape[-3:]) or source.rank != 5 or padding is None:
        return _VARY if source.rank == 5 else None
    x = channels_last(source)
    batch, depth, height, width, channels = x.shape
    planes = maxima(x.view(batch * depth, height, width, channels), windows[1:], padding[1:])
    _, rows, columns, _ = planes.shape
    lines = planes.view(batch, depth, rows * columns, channels)
    across = Windows(rows * columns, rows * columns, 1, 1)
    found = maxima(lines, [windows[0], across], [padding[0], (0, 0)])
    return [channels_first(found.view(batch, found.shape[1], rows, columns, channels)).node, None]


def _avg_pool2d(builder: Builder, node: Node) -> Any:
    """Makes padding that counts elements; a divisor is a factor."""
    bound, windows = bind(node), windows_of(node, 2)
    source, divisor = value_of(builder, bound["self"]), bound["divisor_override"]
    padding = _padding(node, windows)
    if padding is None:
        return _CEIL
    if divisor:
        counted = padding
    else:
        counted = [(axis.before, axis.padding) if bound["count_include_pad"] else (0, 0) for axis in windows]
    x = channels_last(batch(source))
    if any(map(any, counted)):
        x = x.pad([0, 0, *counted[1], *counted[0]])
        windows = [
            Windows(axis.size + sum(pair), axis.outputs, axis.kernel, axis.stride)
            for axis, pair in zip(windows, counted, strict=True)
        ]
    left = [(before - own[0], after - own[1]) for (before, after), own in zip(padding, counted, strict=True)]
    result = averages(x, windows, left)
    count = math.prod(axis.kernel for axis in windows)
    if divisor and divisor != count:
        result = result * (count / divisor)
    return like(channels_first(result), source.rank).node


def _adaptive(pool: Any, several: bool, builder: Builder, node: Node) -> Any:
    source, shape = value_of(builder, bind(node)["self"]), tensors(node.meta["val"])[0].shape
    x = channels_last(batch(source))
    if is_dynamic(x.shape[1:]):
        return _VARY
    result = adaptive(x, shape[-2:], lambda part, windows: pool(part, windows, [(0, 0), (0, 0)]))
    result = like(channels_first(result), source.rank)
    return [result.node, None] if several else result.node


def _mean(builder: Builder, node: Node) -> Node | None:
    """Takes the mean of rows and columns where channels are the last dimension."""
    bound = bind(node)
    x, dims = value_of(builder, bound["self"]), bound["dim"] or []
    if x.rank != 4 or sorted(positive(dim, 4) for dim in dims) != [2, 3] or x.dtype != dtype_of(node):
        return None
    if bound["keepdim"]:
        return channels_first(channels_last(x).mean([1, 2], keepdim=True)).node
    return channels_last(x).mean([1, 2]).node


_FIRST: Final = (only_first_result("the runtime has positions only of windows side by side."),)

REWRITES: Final = (
    Rewrite(
        aten.max_pool2d_with_indices.default,
        _max_pool2d,
        _FIRST,
        note="channels last; windows beyond the border are padding",
    ),
    Rewrite(
        aten.max_pool3d_with_indices.default,
        _max_pool3d,
        _FIRST,
        note="channels last; planes, and then the depth",
        preserved=True,
    ),
    Rewrite(
        aten.avg_pool2d.default,
        _avg_pool2d,
        note="channels last; padding that counts is added to the images, a divisor is a factor",
    ),
    Rewrite(
        aten._adaptive_avg_pool2d.default,
        partial(_adaptive, averages, False),
        note="channels last; windows of several sizes by dimension, in runs of the same size",
        preserved=True,
    ),
    Rewrite(
        aten.adaptive_max_pool2d.default,
        partial(_adaptive, maxima, True),
        _FIRST,
        note="channels last; windows of several sizes by dimension, in runs of the same size",
        preserved=True,
    ),
    Rewrite(aten.mean.dim, _mean, note="channels last, if rows or columns vary"),
)
