# SPDX-License-Identifier: Apache-2.0
"""3-d and adaptive pooling by 2-d kernels.

The windows of a pool are products of ranges, so that an average or a maximum over one is that over the last
two dimensions and then over the first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.arguments import each
from delegatec.edge.legalize.rule import FunctionTable
from delegatec.edge.legalize.rules.windows import members

aten = torch.ops.aten


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
    step = each(stride, 3, window)
    *outer, depth, height, width = x.shape
    if not x.is_floating_point() or not all(isinstance(size, int) for size in x.shape[-4:]):
        return NotImplemented
    planes = x.reshape(math.prod(outer), depth, height, width)
    # a window has equally many elements in each of its planes
    divisors = [math.prod(window[1:]), window[0]] if divisor_override else [None, None]
    planes = aten.avg_pool2d.default(
        *(planes, window[1:], step[1:], padding[1:], ceil_mode, count_include_pad, divisors[0])
    )
    _, _, height, width = planes.shape
    columns = aten.avg_pool2d.default(
        *(planes.reshape(-1, 1, depth, height * width), [window[0], 1], [step[0], 1], [padding[0], 0]),
        *(ceil_mode, count_include_pad, divisors[1]),
    )
    average = columns.reshape(*outer, columns.shape[2], height, width)
    return average * (math.prod(window) / divisor_override) if divisor_override else average


def _max_pool3d(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """Returns maxima, and their positions in row-major order."""
    window, padding, dilation = each(kernel_size, 3), each(padding, 3), each(dilation, 3)
    step = each(stride, 3, window)
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
    count = math.prod(outer)
    planes = aten.adaptive_avg_pool2d.default(x.reshape(count, size, *x.shape[-2:]), [height, width])
    columns = aten.adaptive_avg_pool2d.default(
        planes.reshape(count, 1, size, height * width), [depth, height * width]
    )
    result: Tensor = columns.reshape(*outer, depth, height, width)
    return result


def _adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> Any:
    """Pools the last `len(output_size)` dimensions; positions are in row-major order."""
    rank = len(output_size)
    sizes = x.shape[-rank:]
    if not all(isinstance(size, int) and size > 0 for size in sizes) or 0 in output_size:
        return NotImplemented
    outer = x.shape[:-rank]
    flat = torch.zeros([1] * (2 * rank), dtype=torch.int64)
    for dim, (size, outputs) in enumerate(zip(sizes, output_size, strict=True)):
        found = members(size, outputs)
        form = [1] * (2 * rank)
        form[dim], form[rank + dim] = found.shape
        flat = flat * size + found.reshape(form)
    windows = flat.reshape(math.prod(output_size), -1)
    candidates = x.reshape(*outer, math.prod(sizes)).index_select(-1, windows.reshape(-1))
    values, at = candidates.reshape(*outer, *windows.shape).max(-1)
    table = windows.expand(*outer, *windows.shape)
    positions = torch.gather(table, -1, at.unsqueeze(-1)).squeeze(-1)
    return values.reshape(*outer, *output_size), positions.reshape(*outer, *output_size)


FUNCTIONS: FunctionTable = {
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    aten.avg_pool3d.default: _avg_pool3d,
    aten.max_pool3d_with_indices.default: _max_pool3d,
}
