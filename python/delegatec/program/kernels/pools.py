# SPDX-License-Identifier: Apache-2.0
"""Max pools as maxima of strided slices, since the kernel skips NaN unless it is the first of its window.

Indices are the kernel's, but for windows with NaN; those of large windows and of sizes that vary skip NaN.

Slices are faster, too: in the stock runtime of ExecuTorch 1.4.1 the kernel takes as long for 64 planes of
112 x 112 and windows of 3 x 3 that are two elements apart, and 4 to 30 times as long for smaller planes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, read_results
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.legalize.rules.windows import Windows, windows_of
from delegatec.edge.legalize.value import Value, arange

aten = torch.ops.aten

# The kernel computes larger windows.
_MAX_SLICES: Final = 16
# Positions below are float32 values.
_EXACT: Final = 2**24


def _max_pool2d(b: Builder, node: Node) -> list[Node | None] | None:
    """The kernel skips NaN."""
    x, results = Value(b, bind(node)["self"]), read_results(node)
    sizes = (*x.shape[-2:], *node.meta["val"][0].shape[-2:])
    axes = windows_of(node, 2)
    is_small = all(isinstance(size, int) for size in sizes) and all(
        axis.outputs == 1 or axis.kernel <= _MAX_SLICES for axis in axes
    )
    if not is_small and not x.dtype.is_floating_point:
        return None
    indices = None
    if not is_small or 1 in results:
        values, indices = _pooled(b, node, x)
    if is_small and indices is not None and x.dtype.is_floating_point:
        indices = _with_positions_of_nan(Value(b, indices), x, axes).node
    if 0 not in results:
        return [None, indices]
    if is_small:
        values = _planes(x, axes)
    else:
        is_nan = Value(b, b.call(aten.isnan.default, x.node)).to(x.dtype)
        values = _pooled(b, node, is_nan)[0].gt(0).where(torch.nan, values)
    return [values.node, indices]


def _with_positions_of_nan(indices: Value, x: Value, axes: Sequence[Windows]) -> Value:
    """Replaces the indices of windows with NaN by that of the last one, as eager mode has."""
    rows, columns = x.shape[-2:]
    if rows * columns >= _EXACT:
        return indices
    position = arange(x.builder, rows * columns, torch.float32, start=1).view(rows, columns)
    is_nan = Value(x.builder, x.builder.call(aten.isnan.default, x.node))
    last = _planes(is_nan.where(position, 0.0), axes)
    return last.gt(0.0).where((last - 1.0).to(torch.int64), indices)


def _pooled(b: Builder, node: Node, x: Value) -> tuple[Value, Node]:
    """Returns the results of the kernel."""
    pool = b.call(aten.max_pool2d_with_indices.default, x.node, *node.args[1:], val=node.meta["val"])
    values, indices = (b.call(operator.getitem, pool, i, val=val) for i, val in enumerate(node.meta["val"]))
    return Value(b, values), indices


def _planes(x: Value, axes: Sequence[Windows]) -> Value:
    """Returns the maxima of windows along the last two dimensions."""
    return _maxima(_maxima(x, x.rank - 2, axes[0]), x.rank - 1, axes[1])


def _maxima(x: Value, dim: int, axis: Windows) -> Value:
    """Returns the maxima of windows along one dimension."""
    first = -axis.before % axis.dilation
    end = min(axis.size, axis.dilation * (axis.kernel - 1) + 1 - axis.before)
    if axis.outputs == 1 and first < end:
        line = x.slice(dim, first, end, axis.dilation)
        val = x.builder.empty((*x.shape[:dim], 1, *x.shape[dim + 1 :]), x.dtype)
        return Value(x.builder, x.builder.call(aten.amax.default, line.node, [dim], True, val=val))
    if axis.before or axis.after > 0:
        lowest = -torch.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min
        pads = (*(0, 0) * (x.rank - 1 - dim), axis.before, max(axis.after, 0))
        x = x.pad(pads, lowest)
    span = (axis.outputs - 1) * axis.stride + 1
    starts = range(0, axis.kernel * axis.dilation, axis.dilation)
    return reduce(Value.maximum, (x.slice(dim, start, start + span, axis.stride) for start in starts))


RULES: RuleTable = {aten.max_pool2d_with_indices.default: _max_pool2d}
