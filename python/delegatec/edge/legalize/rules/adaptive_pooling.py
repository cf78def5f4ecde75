# SPDX-License-Identifier: Apache-2.0
"""Adaptive pools over images and volumes, whose windows follow from the sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from delegatec.edge.arguments import bind, read_results, shape_of, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import FunctionTable, Refusal, Rewrite, RuleTable
from delegatec.edge.legalize.rules.indices import as_int32
from delegatec.edge.legalize.rules.padding import padded
from delegatec.edge.legalize.rules.pooling import FLOAT, averages, images, maxima
from delegatec.edge.legalize.rules.windows import Windows, members, regular
from delegatec.edge.legalize.value import table, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_VARY: Final = Refusal("shape", "the window sizes depend on a dynamic dimension")


# ---- normal form -----------------------------------------------------------------------------------------


def _mean_or_avg_pool2d(b: Builder, node: Node) -> Node | None:
    """Computes a mean if the output is 1 x 1, an average pool if all windows have one size."""
    x, output = node.args[0], node.args[1]
    assert isinstance(x, Node) and isinstance(output, (list, tuple))
    size = shape_of(x)[-2:]
    if list(output) == [1, 1]:
        return b.call(aten.mean.dim, x, [-2, -1], True)
    if not all(
        isinstance(s, int) and isinstance(o, int) and s % o == 0 for s, o in zip(size, output, strict=True)
    ):
        return None
    window = [s // o for s, o in zip(size, output, strict=True)]
    return b.call(aten.avg_pool2d.default, x, window, window)


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
    if any(isinstance(size, torch.SymInt) for size in sizes) and _divides(output_size, sizes):
        return _maxima_of_equal_windows(x, output_size)
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


def _divides(output_size: Sequence[int], sizes: Sequence[Any]) -> bool:
    """Whether all windows have one size for any dynamic sizes."""
    return 0 not in output_size and all(
        statically_known_true(size % outputs == 0) for size, outputs in zip(sizes, output_size, strict=True)
    )


def _maxima_of_equal_windows(x: Tensor, output_size: Sequence[int]) -> Any:
    """Pools windows of one size, as torch's max pools do not take dynamic ones."""
    rank = len(output_size)
    sizes, outer = x.shape[-rank:], x.shape[:-rank]
    kernel = [size // outputs for size, outputs in zip(sizes, output_size, strict=True)]
    pairs = [each for pair in zip(output_size, kernel, strict=True) for each in pair]
    first = len(outer)
    outputs, elements = range(first, first + 2 * rank, 2), range(first + 1, first + 2 * rank, 2)
    windows = x.reshape(*outer, *pairs).permute(*range(first), *outputs, *elements)
    values, at = windows.reshape(*outer, *output_size, math.prod(kernel)).max(-1)
    positions, step = torch.zeros_like(at), 1
    for dim in reversed(range(rank)):
        form = [1] * rank
        form[dim] = output_size[dim]
        corner = torch.arange(output_size[dim]).reshape(form) * kernel[dim]
        positions = positions + (corner + at % kernel[dim]) * step
        at, step = at // kernel[dim], step * sizes[dim]
    return values, positions


# ---- for targets that pool images, by windows of one size --------------------------------------------------


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
            # A separate zero for the elements that a window lacks, so that no infinity is multiplied by zero.
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
    results = 2 if 1 in read_results(node) else 1
    values, *found_indices = maxima(x, windows[0], windows[1], results)
    pooled = values.view(*result).node
    if results == 1:
        return [pooled, None]
    indices = found_indices[0]
    if x.shape[2:] != shape_of(source)[-2:]:
        # Positions among the gathered elements become positions in the operand.
        originals = table(builder, (positions[0].unsqueeze(1) * width + positions[1]).reshape(-1))
        indices = originals.take(0, as_int32(builder, indices.node, 0, originals.numel - 1)).to(torch.int64)
    return [pooled, indices.view(*result).node]


_NOTE: Final = (
    "windows of several sizes are gathered by constant indices, at most one plane of them, then pooled"
)

RULES: Final[RuleTable] = {aten.adaptive_avg_pool2d.default: _mean_or_avg_pool2d}

FUNCTIONS: Final[FunctionTable] = {
    aten._adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.adaptive_avg_pool3d.default: _adaptive_avg_pool3d,
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
}

REWRITES: Final = (
    Rewrite(aten._adaptive_avg_pool2d.default, _adaptive_avg_pool2d, (FLOAT,), note=_NOTE),
    Rewrite(aten.adaptive_max_pool2d.default, _adaptive_max_pool2d, (FLOAT,), note=_NOTE, preserved=True),
)
