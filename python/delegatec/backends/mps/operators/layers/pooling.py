# SPDX-License-Identifier: Apache-2.0
"""Pooling.

Windows beyond the border (ceil_mode) become padding of the far side: shapes are right by construction, and
MPSGraph's own ceil mode, which gives other shapes than ATen's (pytorch#154882), is not used.

MPSGraph divides by the number of elements of a window that are no padding, or by that of all. ATen counts
padding but not what is beyond it, and lets a program say what to divide by. What MPSGraph does not have is
the average with all counted, times a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import Operation, Pool2dT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand, table
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import read_results, shape_of


@dataclass(frozen=True)
class Windows:
    """Windows along one dimension.

    Attributes:
        size: of the dimension.
        outputs: how many windows.
        kernel: elements of each.
        stride: from one to the next.
        dilation: from one element to the next.
        before: padding in front.
        padding: behind, as far as it counts.
    """

    size: int
    outputs: int
    kernel: int
    stride: int
    dilation: int = 1
    before: int = 0
    padding: int = 0

    @property
    def after(self) -> int:
        """Padding that the last window needs, and no less than what counts."""
        end = (self.outputs - 1) * self.stride + self.dilation * (self.kernel - 1) + 1
        return max(self.padding, end - self.size - self.before)

    def counts(self, include_padding: bool) -> torch.Tensor:
        """How many elements ATen divides a window by: int64 [outputs]."""
        start = torch.arange(self.outputs) * self.stride - self.before
        end = (start + self.kernel).clamp(max=self.size + self.padding)
        return end - start if include_padding else end.clamp(max=self.size) - start.clamp(min=0)


def windows_of(node: Node, rank: int) -> list[Windows]:
    """Windows of a pooling node, for each of the last `rank` dimensions."""
    bound = bind(node)

    def each(name: str, default: Sequence[int]) -> list[int]:
        given = bound.get(name)
        values = [given] if isinstance(given, int) else list(given or default)
        return values * rank if len(values) == 1 else values

    value: Any = node.meta["val"]
    outputs = (value[0] if isinstance(value, (tuple, list)) else value).shape[-rank:]
    kernel = each("kernel_size", ())
    stride, padding, dilation = each("stride", kernel), each("padding", [0]), each("dilation", [1])
    sizes = shape_of(bound["self"])[-rank:]
    return [
        Windows(sizes[i], outputs[i], kernel[i], stride[i], dilation[i], padding[i], padding[i])
        for i in range(rank)
    ]


def images(x: Expression) -> Expression:
    """[C, H, W] as [1, C, H, W], which MPSGraph pools; a batch as it is."""
    return x if len(x.shape) == 4 else x.view(1, *x.shape)


def _table(x: Expression, rows: Windows, columns: Windows) -> Pool2dT:
    return Pool2dT(
        input1Id=x.id,
        kernelHeight=rows.kernel,
        kernelWidth=columns.kernel,
        strideHeight=rows.stride,
        strideWidth=columns.stride,
        dilationHeight=rows.dilation,
        dilationWidth=columns.dilation,
        paddingLeft=columns.before,
        paddingRight=columns.after,
        paddingTop=rows.before,
        paddingBottom=rows.after,
    )


def maxima(x: Expression, rows: Windows, columns: Windows) -> tuple[Expression, Expression]:
    """Maxima of [N, C, H, W], and their places in their plane: int32."""
    shape = (*x.shape[:2], rows.outputs, columns.outputs)
    table = _table(x, rows, columns)
    table.output1Id = x.builder.temporary(shape, x.dtype)
    table.output2Id = x.builder.temporary(shape, torch.int32)
    x.builder.emit(Operation.MaxPool2DWithIndices, table)
    return Expression(x.builder, table.output1Id), Expression(x.builder, table.output2Id)


def _average(
    x: Expression, rows: Windows, columns: Windows, *, padding_counts: bool, divisor: int = 0
) -> Expression:
    """Averages of [N, C, H, W] as the runtime computes them."""
    table = _table(x, rows, columns)
    table.countIncludePad = padding_counts
    table.divisorOverride = divisor
    table.output1Id = x.builder.temporary((*x.shape[:2], rows.outputs, columns.outputs), x.dtype)
    table.output2Id = -1
    x.builder.emit(Operation.AvgPool2D, table)
    return Expression(x.builder, table.output1Id)


def averages(x: Expression, rows: Windows, columns: Windows, include_padding: bool = False) -> Expression:
    """Averages of [N, C, H, W] as ATen computes them."""
    if not include_padding or rows.before == columns.before == 0:
        return _average(x, rows, columns, padding_counts=False)
    result = _average(x, rows, columns, padding_counts=True)
    scales = [axis.kernel / axis.counts(include_padding).float() for axis in (rows, columns)]
    if all((scale == 1).all() for scale in scales):
        return result
    return result * table(x.builder, (scales[0].unsqueeze(1) * scales[1]).to(x.dtype))


def _divided(x: Expression, rows: Windows, columns: Windows, divisor: int) -> Expression:
    """Sums of windows, divided by a number."""
    if x.dtype == torch.float32:
        return _average(x, rows, columns, padding_counts=True, divisor=divisor)
    # The runtime multiplies by a float32, which does not go with float16.
    return _average(x, rows, columns, padding_counts=True) * (rows.kernel * columns.kernel / divisor)


def _max_pool(b: GraphBuilder, node: Node) -> None:
    values, indices = maxima(images(operand(b, bind(node)["self"])), *windows_of(node, 2))
    shape = node.meta["val"][0].shape
    values.view(*shape).bind(node, 0)
    if 1 in read_results(node):
        indices.to(torch.int64).view(*shape).bind(node, 1)


def _max_pool3d(b: GraphBuilder, node: Node) -> None:
    """Maxima of planes, and then of those."""
    layers, rows, columns = windows_of(node, 3)
    x, shape = operand(b, bind(node)["self"]), node.meta["val"][0].shape
    several, count = math.prod(x.shape[:-3]), rows.outputs * columns.outputs
    planes, within = maxima(x.view(several, layers.size, rows.size, columns.size), rows, columns)
    whole = Windows(count, count, kernel=1, stride=1)
    values, at = maxima(planes.view(several, 1, layers.size, count), layers, whole)
    values.view(*shape).bind(node, 0)
    if 1 not in read_results(node):
        return
    # `at` counts elements of pooled planes.
    size = layers.size * count
    at = at.view(several, layers.outputs * count)
    starts = table(b, (torch.arange(several) * size).unsqueeze(1))
    chosen = within.view(several * size).index_select(0, at + starts)
    indices = chosen + at / count * (rows.size * columns.size)
    indices.to(torch.int64).view(*shape).bind(node, 1)


def _avg_pool2d(b: GraphBuilder, node: Node) -> None:
    bound, (rows, columns) = bind(node), windows_of(node, 2)
    x, divisor = images(operand(b, bound["self"])), bound["divisor_override"]
    if divisor:
        result = _divided(x, rows, columns, divisor)
    else:
        result = averages(x, rows, columns, bound["count_include_pad"])
    result.view(*shape_of(node)).bind(node)


def _avg_pool3d(b: GraphBuilder, node: Node) -> None:
    """Averages over planes, and then of those: a window has as many elements in each of its planes."""
    bound, (layers, rows, columns) = bind(node), windows_of(node, 3)
    x, include, divisor = operand(b, bound["self"]), bound["count_include_pad"], bound["divisor_override"]
    several = math.prod(x.shape[:-3])
    x = x.view(several, layers.size, rows.size, columns.size)
    whole = Windows(rows.outputs * columns.outputs, rows.outputs * columns.outputs, kernel=1, stride=1)
    flat = (several, 1, layers.size, whole.size)
    if divisor:
        x = _average(x, rows, columns, padding_counts=True).view(*flat)
        x = _average(x, layers, whole, padding_counts=True)
        x = x * (layers.kernel * rows.kernel * columns.kernel / divisor)
    else:
        x = averages(x, rows, columns, include).view(*flat)
        x = averages(x, layers, whole, include)
    x.view(*shape_of(node)).bind(node)


_EQUAL: Final = "which of equal maxima an index names is MPSGraph's choice, and so is whether a NaN is one"
_NOTE: Final = "multiplied by a constant where ATen divides by another number than MPSGraph"

ROWS: Final = (
    OperatorRow(
        overload("max_pool2d_with_indices"),
        _max_pool,
        (FLOAT_OPERANDS,),
        note=f"indices are cast to int64 if they are read; {_EQUAL}",
    ),
    OperatorRow(
        overload("max_pool3d_with_indices"),
        _max_pool3d,
        (FLOAT_OPERANDS,),
        note=f"planes first, and then layers; {_EQUAL}",
        preserved=True,
    ),
    OperatorRow(overload("avg_pool2d"), _avg_pool2d, (FLOAT_OPERANDS,), note=_NOTE),
    OperatorRow(
        overload("avg_pool3d"),
        _avg_pool3d,
        (FLOAT_OPERANDS,),
        note=_NOTE,
        preserved=True,
    ),
)
