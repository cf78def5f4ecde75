# SPDX-License-Identifier: Apache-2.0
"""The sum of windows that overlap (`fold`), one dimension after the other.

Without padding, element t of window i is added to element stride * i + dilation * t of the result. Complete
windows are moved: overlapping ones with the same phase of the stride are added, and the phases are
interleaved. That does not need a scatter with addition.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.padding import padded
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.value import Value, value_of


def _col2im(builder: Builder, node: Node) -> Node:
    bound, result = bind(node), shape_of(node)
    kernel, stride, padding, dilation = (
        each(bound[name], 2) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    windows = [
        (result[dim - 2] + 2 * padding[dim] - dilation[dim] * (kernel[dim] - 1) - 1) // stride[dim] + 1
        for dim in (0, 1)
    ]
    planes = math.prod(result[:-2])
    x = value_of(builder, bound["self"]).view(planes, *kernel, *windows).permute(0, 1, 3, 2, 4)
    x = x.view(planes, kernel[0], windows[0], kernel[1] * windows[1])
    x = _added(x, result[-2], stride[0], padding[0], dilation[0])
    x = x.view(planes * result[-2], kernel[1], windows[1], 1)
    return _added(x, result[-1], stride[1], padding[1], dilation[1]).view(*result).node


def _added(x: Value, size: int, stride: int, padding: int, dilation: int) -> Value:
    """[B, elements of a window, windows, R] as [B, size, R]."""
    outer, taps, windows, rest = x.shape
    spacing = dilation
    if stride > 1 and dilation > 1:
        x = padded(x.view(outer, taps, 1, windows * rest), 2, 0, dilation - 1)
        taps *= dilation
        x = x.view(outer, taps, windows, rest)
    if stride > 1:
        # A window of whole strides: phases are a separate dimension.
        several, spacing = -(-taps // stride), 1
        x = padded(x, 1, 0, several * stride - taps)
        taps = several
    x = x.view(outer, taps, stride, windows, rest)
    moved = (
        padded(
            x.slice(1, tap, tap + 1).view(outer, stride, windows, rest),
            2,
            tap * spacing,
            (taps - 1 - tap) * spacing,
        )
        for tap in range(taps)
    )
    total = reduce(Value.__add__, moved)
    length = total.shape[2] * stride
    line = total.permute(0, 2, 1, 3).view(outer, length, rest)
    return padded(line, 1, -padding, size + padding - length)


REWRITES: Final = (
    Rewrite(
        torch.ops.aten.col2im.default,
        _col2im,
        (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),),
        note="adds complete windows, one dimension after the other",
        preserved=True,
    ),
)
