# SPDX-License-Identifier: Apache-2.0
"""Pools over images and volumes.

The windows of a pool are products of ranges, so that an average or a maximum over one is that over the last
two dimensions and then over the first.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, each, read_results, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import FunctionTable, Rewrite, RuleTable
from delegatec.edge.legalize.rules.indices import as_int32, progression
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.rules.windows import Windows, windows_of
from delegatec.edge.legalize.value import Value, table, value_of

aten = torch.ops.aten

FLOAT: Final = operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")


# ---- normal form -----------------------------------------------------------------------------------------


def _max_pool2d(b: Builder, node: Node) -> Node:
    a = bind(node)
    results = b.call(
        aten.max_pool2d_with_indices.default,
        *(a["self"], _kernel(node), a["stride"] or a["kernel_size"], a["padding"], a["dilation"]),
        a["ceil_mode"],
    )
    return b.call(operator.getitem, results, 0, val=node.meta["val"])


def _kernel(node: Node) -> list[int]:
    """Returns the elements of a window along rows and columns, without those beyond a single window's end.

    A network that pools all that is left may ask for far more, such as 1,280 of 7 with `ceil_mode`; kernels
    of the runtime and of delegates visit each of them, or refuse them.
    """
    return [min(axis.kernel, axis.size) if _is_single(axis) else axis.kernel for axis in windows_of(node, 2)]


def _is_single(axis: Windows) -> bool:
    """Whether an axis of a static size has a single window, which begins with the image."""
    is_static = isinstance(axis.size, int) and isinstance(axis.outputs, int)
    return is_static and axis.outputs == 1 and axis.dilation == 1 and axis.padding == 0


def _large_average(b: Builder, node: Node) -> Node | None:
    """Drops elements of a window that are beyond the image; the divisor does not count them."""
    a, kernel, axes = bind(node), _kernel(node), windows_of(node, 2)
    x = a["self"]
    if kernel == [axis.kernel for axis in axes] or not dtype_of(x).is_floating_point:
        return None
    is_whole = all(_is_single(axis) and axis.kernel >= axis.size for axis in axes)
    if is_whole and not a["divisor_override"]:
        return b.call(aten.mean.dim, x, [-2, -1], True)
    stride = [axis.stride for axis in axes]
    rest = (a["padding"], a["ceil_mode"], a["count_include_pad"], a["divisor_override"])
    return b.call(aten.avg_pool2d.default, x, kernel, stride, *rest)


def _avg_pool3d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    window, padding = each(kernel_size, 3), each(padding, 3)
    strides = each(stride, 3, window)
    *outer, depth, height, width = x.shape
    if not x.is_floating_point() or not all(isinstance(size, int) for size in x.shape[-4:]):
        return NotImplemented
    planes = x.reshape(math.prod(outer), depth, height, width)
    # a window has equally many elements in each of its planes
    divisors = [math.prod(window[1:]), window[0]] if divisor_override else [None, None]
    planes = aten.avg_pool2d.default(
        *(planes, window[1:], strides[1:], padding[1:], ceil_mode, count_include_pad, divisors[0])
    )
    _, _, height, width = planes.shape
    columns = aten.avg_pool2d.default(
        *(planes.reshape(-1, 1, depth, height * width), [window[0], 1], [strides[0], 1], [padding[0], 0]),
        *(ceil_mode, count_include_pad, divisors[1]),
    )
    average = columns.reshape(*outer, columns.shape[2], height, width)
    return average * (math.prod(window) / divisor_override) if divisor_override else average


def _max_pool3d_by_planes(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """Returns maxima, and their positions in row-major order."""
    window, padding, dilation = each(kernel_size, 3), each(padding, 3), each(dilation, 3)
    strides = each(stride, 3, window)
    *outer, depth, height, width = x.shape
    if not all(isinstance(size, int) for size in x.shape[-4:]):
        return NotImplemented
    planes = x.reshape(math.prod(outer), depth, height, width)
    maxima, within = torch.ops.aten.max_pool2d_with_indices.default(
        planes, window[1:], strides[1:], padding[1:], dilation[1:], ceil_mode
    )
    _, _, rows, columns = maxima.shape
    count = rows * columns
    maxima, at = torch.ops.aten.max_pool2d_with_indices.default(
        maxima.reshape(-1, 1, depth, count),
        *([window[0], 1], [strides[0], 1], [padding[0], 0], [dilation[0], 1], ceil_mode),
    )
    # `at` is in planes of pooled elements
    chosen = torch.gather(within.reshape(-1, depth * count), 1, at.reshape(at.shape[0], -1))
    plane = torch.div(at, count, rounding_mode="floor").reshape(chosen.shape)
    shape = [*outer, at.shape[2], rows, columns]
    return maxima.reshape(shape), (chosen + plane * (height * width)).reshape(shape)


# ---- for targets that pool images, by windows of one size --------------------------------------------------


def images(x: Value) -> Value:
    """[C, H, W] as [1, C, H, W]; a batch unchanged."""
    return x if x.rank == 4 else x.view(1, *x.shape)


def maxima(x: Value, rows: Windows, columns: Windows, results: int = 2) -> list[Value]:
    """Returns the maxima of [N, C, H, W] and, if `results` is 2, their positions in their plane: int64."""
    axes, outputs = (rows, columns), (*x.shape[:2], rows.outputs, columns.outputs)
    vals = tuple(x.builder.empty(outputs, dtype) for dtype in (x.dtype, torch.int64))
    pool = x.builder.call(
        aten.max_pool2d_with_indices.default,
        x.node,
        *([getattr(axis, name) for axis in axes] for name in ("kernel", "stride", "before", "dilation")),
        any(axis.after > axis.padding for axis in axes),
        val=vals,
    )
    values, *indices = (
        Value(x.builder, x.builder.call(operator.getitem, pool, index, val=val))
        for index, val in enumerate(vals[:results])
    )
    return [values, *(each.within(0, math.prod(x.shape[2:]) - 1) for each in indices)]


def averages(x: Value, rows: Windows, columns: Windows, divisor: int | None = None) -> Value:
    """Returns averages of [N, C, H, W] with padding that counts, or sums divided by a scalar."""
    axes = (rows, columns)
    return Value(
        x.builder,
        x.builder.call(
            aten.avg_pool2d.default,
            x.node,
            *([getattr(axis, name) for axis in axes] for name in ("kernel", "stride", "before")),
            any(axis.after > axis.padding for axis in axes),
            True,
            divisor,
            val=x.builder.empty((*x.shape[:2], rows.outputs, columns.outputs), x.dtype),
        ),
    )


def is_uniform(node: Node) -> bool:
    """Whether an average pool divides all its windows by the number of their elements, padding included."""
    bound, axes = bind(node), windows_of(node, 2)
    if bound["divisor_override"]:
        return bool(bound["divisor_override"] == math.prod(axis.kernel for axis in axes))
    return all((axis.counts(bound["count_include_pad"]) == axis.kernel).all() for axis in axes)


def _alone(builder: Builder, node: Node) -> Any:
    """Pools an image as a batch of one."""
    x = value_of(builder, bind(node)["self"])
    return None if x.rank == 4 else again(builder, node, self=images(x).node)


def _avg_pool2d(builder: Builder, node: Node) -> Node | None:
    """Divides by the number of elements, and multiplies by a constant to get the divisor of ATen."""
    bound, axes = bind(node), windows_of(node, 2)
    x = value_of(builder, bound["self"])
    if is_uniform(node) or x.rank != 4:
        return None
    count = math.prod(axis.kernel for axis in axes)
    average = averages(x, axes[0], axes[1], count)
    if bound["divisor_override"]:
        factor: float = count / bound["divisor_override"]
        return (average * factor).node
    rows, columns = (axis.kernel / axis.counts(bound["count_include_pad"]).float() for axis in axes)
    return (average * table(builder, (rows.unsqueeze(1) * columns).to(x.dtype))).node


def _max_pool3d(builder: Builder, node: Node) -> list[Node | None]:
    """Takes the maxima of planes, then of those along the layers."""
    layers, rows, columns = windows_of(node, 3)
    x, shape = value_of(builder, bind(node)["self"]), tensors(node.meta["val"])[0].shape
    several, count = math.prod(x.shape[:-3]), rows.outputs * columns.outputs
    results = 2 if 1 in read_results(node) else 1
    planes, *within_plane = maxima(
        x.view(several, layers.size, rows.size, columns.size), rows, columns, results
    )
    line = Windows(count, count, kernel=1, stride=1)
    values, *elements = maxima(planes.view(several, 1, layers.size, count), layers, line, results)
    result = values.view(*shape).node
    if results == 1:
        return [result, None]
    # elements of pooled planes
    size = layers.size * count
    at = as_int32(builder, elements[0].node, 0, size - 1).view(several, layers.outputs * count)
    within = as_int32(builder, within_plane[0].node, 0, rows.size * columns.size - 1).view(several * size)
    starts = progression(builder, several, 1, step=size)
    chosen = within.take(0, (at + starts).within(0, several * size - 1))
    plane = at.truncated_quotient(count) * (rows.size * columns.size)
    return [result, (chosen + plane).to(torch.int64).view(*shape).node]


RULES: Final[RuleTable] = {
    aten.avg_pool2d.default: _large_average,
    aten.max_pool2d.default: _max_pool2d,
}

FUNCTIONS: Final[FunctionTable] = {
    aten.avg_pool3d.default: _avg_pool3d,
    aten.max_pool3d_with_indices.default: _max_pool3d_by_planes,
}

REWRITES: Final = (
    *(
        Rewrite(target, _alone, (FLOAT,), note="an image as a batch of one")
        for target in (aten.avg_pool2d.default, aten.max_pool2d_with_indices.default)
    ),
    Rewrite(
        aten.avg_pool2d.default,
        _avg_pool2d,
        (FLOAT,),
        note="the average with all elements, multiplied by a constant",
    ),
    Rewrite(
        aten.max_pool3d_with_indices.default,
        _max_pool3d,
        (FLOAT,),
        note="planes first, and then layers",
        preserved=True,
    ),
)
