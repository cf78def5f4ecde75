# SPDX-License-Identifier: Apache-2.0
"""Pools, for targets that have those over images with windows of one size."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, read_results, shape_of, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.rules.indices import as_int32, progression
from delegatec.edge.legalize.rules.padding import padded
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.rules.ranks import again
from delegatec.edge.legalize.rules.windows import Windows, members, regular, windows_of
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_VARY: Final = Refusal("shape", "the windows follow from the sizes, which vary")


def images(x: Value) -> Value:
    """[C, H, W] as [1, C, H, W]; a batch as it is."""
    return x if x.rank == 4 else x.view(1, *x.shape)


def maxima(x: Value, rows: Windows, columns: Windows) -> tuple[Value, Value]:
    """Returns the maxima of [N, C, H, W], and their positions in their plane: int64."""
    axes, outputs = (rows, columns), (*x.shape[:2], rows.outputs, columns.outputs)
    results = tuple(x.builder.empty(outputs, dtype) for dtype in (x.dtype, torch.int64))
    pool = x.builder.call(
        aten.max_pool2d_with_indices.default,
        x.node,
        *([getattr(axis, name) for axis in axes] for name in ("kernel", "stride", "before", "dilation")),
        any(axis.after > axis.padding for axis in axes),
        val=results,
    )
    values, indices = (
        Value(x.builder, x.builder.call(operator.getitem, pool, index, val=result))
        for index, result in enumerate(results)
    )
    return values, indices.within(0, math.prod(x.shape[2:]) - 1)


def averages(x: Value, rows: Windows, columns: Windows, divisor: int | None = None) -> Value:
    """Returns averages of [N, C, H, W] with padding that counts, or sums divided by a number."""
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
    """Divides by the number of elements, and multiplies by a constant to divide by what ATen divides by."""
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
    planes, within = maxima(x.view(several, layers.size, rows.size, columns.size), rows, columns)
    line = Windows(count, count, kernel=1, stride=1)
    values, at = maxima(planes.view(several, 1, layers.size, count), layers, line)
    result = values.view(*shape).node
    if 1 not in read_results(node):
        return [result, None]
    # `at` counts elements of pooled planes.
    size = layers.size * count
    at = as_int32(builder, at.node, 0, size - 1).view(several, layers.outputs * count)
    within = as_int32(builder, within.node, 0, rows.size * columns.size - 1).view(several * size)
    starts = progression(builder, several, 1, step=size)
    chosen = within.take(0, (at + starts).within(0, several * size - 1))
    plane = at.truncated_quotient(count) * (rows.size * columns.size)
    return [result, (chosen + plane).to(torch.int64).view(*shape).node]


def _adaptive_avg_pool2d(builder: Builder, node: Node) -> Any:
    result = shape_of(node)
    x = images(value_of(builder, bind(node)["self"]))
    if is_dynamic(x.shape[2:]):
        return _VARY
    windows, scales = [], []
    for dim in (2, 3):
        size, outputs = x.shape[dim], result[dim - 4]
        axis, scale = regular(size, outputs), torch.ones(outputs)
        if axis is None:
            # A separate zero for what a window lacks, so that no infinity is multiplied by zero.
            found = members(size, outputs, missing=size)
            lacking = (found == size).sum(1)
            x = padded(x, dim, 0, 1) if lacking.any() else x
            x = x.index_select(dim, table(builder, found.reshape(-1).to(torch.int32)))
            kernel = found.shape[1]
            axis, scale = Windows(outputs * kernel, outputs, kernel, kernel), kernel / (kernel - lacking)
        windows.append(axis)
        scales.append(scale)
    x = averages(x, windows[0], windows[1])
    scale = scales[0].unsqueeze(1) * scales[1]
    if (scale != 1).any():
        x = x * table(builder, scale.to(x.dtype))
    return x.view(*result).node


def _adaptive_max_pool2d(builder: Builder, node: Node) -> Any:
    source, result = bind(node)["self"], tensors(node.meta["val"])[0].shape
    x = images(value_of(builder, source))
    if is_dynamic(x.shape[2:]):
        return _VARY
    width = x.shape[3]
    windows, positions = [], []
    for dim in (2, 3):
        size, outputs = x.shape[dim], result[dim - 4]
        axis, found = regular(size, outputs), torch.arange(size, dtype=torch.int32)
        if axis is None:
            kernel = members(size, outputs).shape[1]
            found = members(size, outputs).reshape(-1).to(torch.int32)
            x = x.index_select(dim, table(builder, found))
            axis = Windows(outputs * kernel, outputs, kernel, kernel)
        windows.append(axis)
        positions.append(found)
    values, indices = maxima(x, *windows)
    pooled = values.view(*result).node
    if 1 not in read_results(node):
        return [pooled, None]
    if x.shape[2:] != shape_of(source)[-2:]:
        # Positions among the gathered elements become positions in the operand.
        originals = table(builder, (positions[0].unsqueeze(1) * width + positions[1]).reshape(-1))
        indices = originals.take(0, as_int32(builder, indices.node, 0, originals.numel - 1)).to(torch.int64)
    return [pooled, indices.view(*result).node]


_FLOAT: Final = (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),)
_GATHERED: Final = (
    "windows of several sizes are gathered, by constants of the size of one plane at most, and pooled"
)

REWRITES: Final = (
    *(
        Rewrite(target, _alone, _FLOAT, note="an image as a batch of one")
        for target in (aten.avg_pool2d.default, aten.max_pool2d_with_indices.default)
    ),
    Rewrite(
        aten.avg_pool2d.default,
        _avg_pool2d,
        _FLOAT,
        note="the average with all elements, multiplied by a constant",
    ),
    Rewrite(
        aten.max_pool3d_with_indices.default,
        _max_pool3d,
        _FLOAT,
        note="planes first, and then layers",
        preserved=True,
    ),
    Rewrite(aten._adaptive_avg_pool2d.default, _adaptive_avg_pool2d, _FLOAT, note=_GATHERED),
    Rewrite(aten.adaptive_max_pool2d.default, _adaptive_max_pool2d, _FLOAT, note=_GATHERED, preserved=True),
)
