# SPDX-License-Identifier: Apache-2.0
"""Pools as XNNPACK's, which have windows of more than one element, and no three-dimensional windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit
from delegatec.edge.channels_last.rewrites.pools import VARY, Pools
from delegatec.edge.legalize.constraints import only_first_result
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.windows import Pair, Windows, padding_of, windows_of
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


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


def _max_pool3d(builder: Builder, node: Node) -> Any:
    """Pools rows and columns, and then the depth."""
    source, windows = value_of(builder, bind(node)["self"]), windows_of(node, 3)
    padding = padding_of(node, windows)
    if is_dynamic(source.shape[-3:]) or source.rank != 5 or padding is None:
        return VARY if source.rank == 5 else None
    x = channels_last(source)
    batch, depth, height, width, channels = x.shape
    planes = maxima(x.view(batch * depth, height, width, channels), windows[1:], padding[1:])
    _, rows, columns, _ = planes.shape
    lines = planes.view(batch, depth, rows * columns, channels)
    across = Windows(rows * columns, rows * columns, 1, 1)
    found = maxima(lines, [windows[0], across], [padding[0], (0, 0)])
    return [channels_first(found.view(batch, found.shape[1], rows, columns, channels)).node, None]


def _mean(builder: Builder, node: Node) -> Node | None:
    """Takes the mean of rows and columns where channels are the last dimension."""
    bound = bind(node)
    x, dims = value_of(builder, bound["self"]), bound["dim"] or []
    if x.rank != 4 or sorted(positive(dim, 4) for dim in dims) != [2, 3] or x.dtype != dtype_of(node):
        return None
    if bound["keepdim"]:
        return channels_first(channels_last(x).mean([1, 2], keepdim=True)).node
    return channels_last(x).mean([1, 2]).node


_FIRST: Final = only_first_result("the runtime has indices only of windows that do not overlap.")

REWRITES: Final = (
    *Pools(maxima, averages, _FIRST).rewrites(),
    Rewrite(
        aten.max_pool3d_with_indices.default,
        _max_pool3d,
        (_FIRST,),
        note="channels last; planes, and then the depth",
        preserved=True,
    ),
    Rewrite(aten.mean.dim, _mean, note="channels last, if rows or columns are dynamic"),
)
