# SPDX-License-Identifier: Apache-2.0
"""3-d and adaptive pooling by 2-d kernels.

The windows of a pool are products of ranges, so that a sum or a maximum over one is that over the last two
dimensions and then over the first. Element counts of windows depend on sizes only, and are constants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import FunctionTable

aten = torch.ops.aten


def _three(value: Sequence[int] | int, default: Sequence[int] = ()) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return list(default) if not values else values * 3 if len(values) == 1 else values


def _avg_pool3d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    window, padding = _three(kernel_size), _three(padding)
    step = _three(stride, window)
    *outer, depth, height, width = x.shape
    if not x.is_floating_point() or not all(isinstance(size, int) for size in x.shape[-4:]):
        return NotImplemented
    planes = x.reshape(math.prod(outer), depth, height, width)
    planes = _sums(planes, window[1:], step[1:], padding[1:], ceil_mode)
    _, _, height, width = planes.shape
    columns = planes.reshape(-1, 1, depth, height * width)
    columns = _sums(columns, [window[0], 1], [step[0], 1], [padding[0], 0], ceil_mode)
    sums = columns.reshape(*outer, columns.shape[2], height, width)
    if divisor_override:
        return sums / divisor_override
    counts = [
        _counts(x.shape[dim], sums.shape[dim], *how, count_include_pad).to(x.dtype)
        for dim, how in zip((-3, -2, -1), zip(window, step, padding, strict=True), strict=True)
    ]
    return sums / (counts[0].view(-1, 1, 1) * counts[1].view(-1, 1) * counts[2])


def _sums(x: Tensor, window: list[int], step: list[int], padding: list[int], ceil_mode: bool) -> Tensor:
    return aten.avg_pool2d.default(x, window, step, padding, ceil_mode, True, 1)  # type: ignore[no-any-return]


def _counts(size: int, outputs: int, window: int, step: int, padding: int, include_pad: bool) -> Tensor:
    """Returns the number of elements of each window along one dimension."""
    start = torch.arange(outputs) * step - padding
    end = (start + window).clamp(max=size + padding)
    return end - start if include_pad else end.clamp(max=size) - start.clamp(min=0)


def _max_pool3d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """Returns maxima, and their positions in row-major order."""
    window, padding, dilation = _three(kernel_size), _three(padding), _three(dilation)
    step = _three(stride, window)
    *outer, depth, height, width = x.shape
    if not all(isinstance(size, int) for size in x.shape[-4:]):
        return NotImplemented
    planes = x.reshape(math.prod(outer), depth, height, width)
    maxima, within = torch.ops.aten.max_pool2d_with_indices.default(
        planes, window[1:], step[1:], padding[1:], dilation[1:], ceil_mode
    )
    _, _, rows, columns = maxima.shape
    count = rows * columns
    maxima, at = torch.ops.aten.max_pool2d_with_indices.default(
        maxima.reshape(-1, 1, depth, count),
        *([window[0], 1], [step[0], 1], [padding[0], 0], [dilation[0], 1], ceil_mode),
    )
    # `at` is in planes of pooled elements
    chosen = torch.gather(within.reshape(-1, depth * count), 1, at.reshape(at.shape[0], -1))
    plane = torch.div(at, count, rounding_mode="floor").reshape(chosen.shape)
    shape = [*outer, at.shape[2], rows, columns]
    return maxima.reshape(shape), (chosen + plane * (height * width)).reshape(shape)


def _adaptive_avg_pool3d(x: Tensor, output_size: Sequence[int]) -> Tensor:
    """Computes means over planes, then over depth: the planes of a window have equally many elements."""
    depth, height, width = output_size
    *outer, size, _, _ = x.shape
    planes = aten.adaptive_avg_pool2d.default(x.reshape(-1, size, *x.shape[-2:]), [height, width])
    columns = aten.adaptive_avg_pool2d.default(
        planes.reshape(-1, 1, size, height * width), [depth, height * width]
    )
    return columns.reshape(*outer, depth, height, width)  # type: ignore[no-any-return]


def _adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> Any:
    """Pools the last `len(output_size)` dimensions; positions are in row-major order."""
    rank = len(output_size)
    sizes = x.shape[-rank:]
    if not all(isinstance(size, int) and size > 0 for size in sizes) or 0 in output_size:
        return NotImplemented
    outer = x.shape[:-rank]
    flat = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for dim, (size, outputs) in enumerate(zip(sizes, output_size, strict=True)):
        members = _members(size, outputs)
        form = [1] * (2 * rank)
        form[dim], form[rank + dim] = members.shape
        flat = flat * size + members.reshape(form)
    windows = flat.reshape(math.prod(output_size), -1)
    candidates = x.reshape(*outer, math.prod(sizes)).index_select(-1, windows.reshape(-1))
    values, at = candidates.reshape(*outer, *windows.shape).max(-1)
    table = windows.expand(*outer, *windows.shape)
    positions = torch.gather(table, -1, at.unsqueeze(-1)).squeeze(-1)
    return values.reshape(*outer, *output_size), positions.reshape(*outer, *output_size)


def _members(size: int, outputs: int) -> Tensor:
    """Returns [outputs, K]: the elements of each window; one smaller than K repeats its last."""
    most = max(-((-(i + 1) * size) // outputs) - i * size // outputs for i in range(outputs))
    output = torch.arange(outputs).unsqueeze(1)
    start = torch.div(output * size, outputs, rounding_mode="floor")
    last = torch.div((output + 1) * size + outputs - 1, outputs, rounding_mode="floor") - 1
    return torch.minimum(start + torch.arange(most), last)


FUNCTIONS: FunctionTable = {
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    aten.avg_pool3d.default: _avg_pool3d,
    aten.max_pool3d_with_indices.default: _max_pool3d,
}
