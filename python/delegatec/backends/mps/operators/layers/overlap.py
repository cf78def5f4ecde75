# SPDX-License-Identifier: Apache-2.0
"""The sum of windows that overlap (`fold`), one dimension after the other.

Element t of window i counts for element stride * i + dilation * t of the result, padding left aside. Windows
are moved as a whole: those that meet with the same phase of the stride are added, and phases put in line.
Nothing is scattered: the runtime could not add there.
"""

from __future__ import annotations

import math
from typing import Final

from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.operators.layers.padding import padded
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import pair, shape_of


def _col2im(b: GraphBuilder, node: Node) -> None:
    bound, whole = bind(node), shape_of(node)
    kernel, stride, padding, dilation = (
        pair(bound[name]) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    windows = [
        (whole[dim - 2] + 2 * padding[dim] - dilation[dim] * (kernel[dim] - 1) - 1) // stride[dim] + 1
        for dim in (0, 1)
    ]
    planes = math.prod(whole[:-2])
    x = operand(b, bound["self"]).view(planes, *kernel, *windows).permute(0, 1, 3, 2, 4)
    x = x.view(planes, kernel[0], windows[0], kernel[1] * windows[1])
    x = _added(x, whole[-2], stride[0], padding[0], dilation[0])
    x = x.view(planes * whole[-2], kernel[1], windows[1], 1)
    _added(x, whole[-1], stride[1], padding[1], dilation[1]).view(*whole).bind(node)


def _added(x: Expression, size: int, stride: int, padding: int, dilation: int) -> Expression:
    """[B, elements of a window, windows, R] as [B, size, R]."""
    outer, taps, windows, rest = x.shape
    step = dilation
    if stride > 1 and dilation > 1:
        x = padded(x.view(outer, taps, 1, windows * rest), 2, 0, dilation - 1)
        taps *= dilation
        x = x.view(outer, taps, windows, rest)
    if stride > 1:
        # A window of whole strides: phases are a dimension of their own.
        several, step = -(-taps // stride), 1
        x = padded(x, 1, 0, several * stride - taps)
        taps = several
    x = x.view(outer, taps, stride, windows, rest)
    total: Expression | None = None
    for tap in range(taps):
        one = x.slice(1, tap, tap + 1).view(outer, stride, windows, rest)
        one = padded(one, 2, tap * step, (taps - 1 - tap) * step)
        total = one if total is None else total + one
    assert total is not None
    length = total.shape[2] * stride
    line = total.permute(0, 2, 1, 3).view(outer, length, rest)
    return padded(line, 1, -padding, size + padding - length)


ROWS: Final = (
    OperatorRow(
        overload("col2im"),
        _col2im,
        (FLOAT_OPERANDS,),
        note="windows are moved and added as a whole, along one dimension after the other",
        preserved=True,
    ),
)
