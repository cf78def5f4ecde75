# SPDX-License-Identifier: Apache-2.0
"""Pooling in two dimensions (the runtime's PoolingOps).

Average pooling ignores `ceil_mode`. That of max pooling is MPSGraph's, which rounds up in the division by the
stride, and unlike ATen keeps a last window that is only padding.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT
from torch.nn import functional

from delegatec.backends.mps.reference.convolution import check_window
from delegatec.backends.mps.reference.run import Run, Semantics, floats, reject, wide

Tensor = torch.Tensor
Pair = tuple[int, int]


class _Windows:
    """The geometry of the windows of a pooling.

    Attributes:
        kernel, stride, dilation: of height and width.
        pad: to add to the operand: left, right, top, bottom. Elements after the last window are cropped.
        shape: of the result: height and width.
    """

    def __init__(self, run: Run, x: Tensor, op: Any, up: bool) -> None:
        if x.dim() != 4:
            reject(f"pooling of rank {x.dim()}")
        self.kernel: Pair = (op.kernelHeight, op.kernelWidth)
        self.stride: Pair = (op.strideHeight, op.strideWidth)
        self.dilation: Pair = (op.dilationHeight, op.dilationWidth)
        left, right, top, bottom = check_window(run, x, self.kernel, self.stride, self.dilation, op)
        height, extra_height = self._fit(x.shape[2] + top + bottom, 0, up)
        width, extra_width = self._fit(x.shape[3] + left + right, 1, up)
        self.pad = (left, right + extra_width, top, bottom + extra_height)
        self.shape = (height, width)

    def _fit(self, size: int, axis: int, up: bool) -> Pair:
        """Returns the number of windows, and the overhang of the last one."""
        reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        fit = (size - reach) / self.stride[axis]
        count = (math.ceil(fit) if up else math.floor(fit)) + 1
        return count, (count - 1) * self.stride[axis] + reach - size


def _sums(windows: _Windows, padded: Tensor) -> Tensor:
    channels = padded.shape[1]
    ones = torch.ones(channels, 1, *windows.kernel)
    return functional.conv2d(padded, ones, None, windows.stride, 0, windows.dilation, channels)


def _inside(windows: _Windows, x: Tensor, border: float) -> Tensor:
    """Counts the elements of each window, those of the border as `border`: (1, 1, height, width)."""
    ones = torch.ones(1, 1, *x.shape[2:])
    return _sums(windows, functional.pad(ones, windows.pad, value=border))


def _first(windows: _Windows, padded: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the largest elements and their first indices."""
    pair: tuple[Tensor, Tensor] = functional.max_pool2d(
        padded, windows.kernel, windows.stride, 0, windows.dilation, return_indices=True
    )
    return pair


def _last(windows: _Windows, padded: Tensor) -> Tensor:
    """Returns the last indices: the first ones from the end, where the last window ends."""
    _, positions = _first(windows, padded.flip(2, 3))
    return padded.shape[2] * padded.shape[3] - 1 - positions.flip(2, 3)


def _max_pool(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    dtype = floats("max pooling", x)
    windows = _Windows(run, x, op, up=op.ceilMode)
    value = wide(x)
    missing = value.isnan()
    if run.unspecified.choose("nan", lambda: missing, "max pooling of NaN") == "other":
        value = torch.where(missing, -math.inf, value)
    padded = functional.pad(value, windows.pad, value=-math.inf)
    values, positions = _first(windows, padded)
    if run.is_used(op.output2Id):
        last = _last(windows, padded)
        if run.unspecified.choose("ties", lambda: last != positions, "the index of equal elements") == "last":
            positions = last
    empty = _inside(windows, x, 0.0) == 0
    if run.unspecified.choose("windows", lambda: empty, "max pooling of padding alone") == "zero":
        values = torch.where(empty, 0.0, values)
    width = padded.shape[3]
    row, column = positions // width - windows.pad[2], positions % width - windows.pad[0]
    run[op.output1Id] = values.to(dtype)
    run[op.output2Id] = (row * x.shape[3] + column).to(torch.int32)


def _avg_pool(run: Run, op: Any, _: NodeT) -> None:
    """Returns averages; with a divisor, over all elements, times a float32 factor."""
    x = run[op.input1Id]
    dtype = floats("average pooling", x)
    windows = _Windows(run, x, op, up=False)
    border = 1.0 if op.divisorOverride or op.countIncludePad else 0.0
    counts = _inside(windows, x, border)
    run.unspecified.choose("windows", lambda: counts == 0, "average pooling of padding alone")
    result = (_sums(windows, functional.pad(wide(x), windows.pad)) / counts).to(dtype)
    if op.divisorOverride:
        if dtype != torch.float32:
            reject("average pooling in float16 with a divisor")
        result = result * run.scalar_tensor(windows.kernel[0] * windows.kernel[1] / op.divisorOverride, dtype)
    run[op.output1Id] = result


SEMANTICS: Final[dict[str, Semantics]] = {"MaxPool2DWithIndices": _max_pool, "AvgPool2D": _avg_pool}
