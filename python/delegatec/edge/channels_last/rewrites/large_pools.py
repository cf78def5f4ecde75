# SPDX-License-Identifier: Apache-2.0
"""Max pools with larger windows or strides than a target supports, as smaller pools: all exact."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.images import emit
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, cat, value_of

_ROWS: Final = 1
_COLUMNS: Final = 2


class _Line(NamedTuple):
    """The windows of a pool along one dimension; `after` is the padding that makes them divide it."""

    kernel: int
    stride: int
    before: int
    after: int

    @property
    def is_trivial(self) -> bool:
        return self == (1, 1, 0, 0)


def _lines(node: Node) -> dict[int, _Line]:
    """Returns the windows along each dimension that a pool changes."""
    bound = bind(node)
    padding = bound["padding"]
    lines = zip(bound["kernel"], bound["stride"], padding[::2], padding[1::2], strict=True)
    found = {dim: _Line(*line) for dim, line in enumerate(lines, _ROWS)}
    return {dim: line for dim, line in found.items() if not line.is_trivial}


def _pooled(x: Value, dim: int, line: _Line) -> Value:
    """Returns the maxima of windows along one dimension."""
    if line.is_trivial:
        return x
    outputs = (x.shape[dim] + line.before + line.after - line.kernel) // line.stride + 1
    kernel, stride, padding = [1, 1], [1, 1], [0, 0, 0, 0]
    kernel[dim - 1], stride[dim - 1] = line.kernel, line.stride
    padding[2 * dim - 2 : 2 * dim] = line.before, line.after
    shape = (*x.shape[:dim], outputs, *x.shape[dim + 1 :])
    return emit(NHWC.max_pool2d.default, x, kernel, stride, padding, shape=shape)


def _by_dimension(builder: Builder, node: Node) -> Node | None:
    """Takes the maxima of columns, and then of rows."""
    lines = _lines(node)
    if len(lines) < 2:
        return None
    x = value_of(builder, bind(node)["x"])
    return _pooled(_pooled(x, _COLUMNS, lines[_COLUMNS]), _ROWS, lines[_ROWS]).node


def _by_blocks(builder: Builder, node: Node) -> Node | None:
    """Takes the maxima of blocks of one stride, and then of the blocks that a window has.

    A window may end inside of a block: the maxima of the first elements of each are another pool.
    """
    x, lines = value_of(builder, bind(node)["x"]), _lines(node)
    if len(lines) != 1:
        return None
    ((dim, line),) = lines.items()
    if line.stride == 1 or (x.dtype.is_floating_point and x.dtype.itemsize == 1):  # without infinity
        return None
    outputs: int = node.meta["val"].shape[dim]
    quotient, rest = divmod(line.kernel, line.stride)
    count = outputs - 1 + quotient + (rest > 0)
    amounts = [0] * 6
    amounts[6 - 2 * dim : 8 - 2 * dim] = line.before, count * line.stride - line.before - x.shape[dim]
    if any(amounts):
        x = x.pad(amounts, -math.inf if x.dtype.is_floating_point else torch.iinfo(x.dtype).min)
    outer, inner = math.prod(x.shape[1:dim]), math.prod(x.shape[dim + 1 :])
    blocks = x.view(x.shape[0], outer * count, line.stride, inner)

    def maxima(size: int) -> Value:
        """Returns the maxima of the first elements of blocks, [N, outer, count, inner]."""
        found = _pooled(blocks.slice(2, 0, size), _COLUMNS, _Line(size, 1, 0, 0))
        return found.view(x.shape[0], outer, count, inner)

    parts = []
    if quotient:
        parts.append(_pooled(maxima(line.stride), _COLUMNS, _Line(quotient, 1, 0, 0)).slice(2, 0, outputs))
    if rest:
        parts.append(maxima(rest).slice(2, quotient, quotient + outputs))
    pairs = cat([each.view(x.shape[0], outer * outputs, 1, inner) for each in parts], 2)
    result = _pooled(pairs, _COLUMNS, _Line(len(parts), 1, 0, 0))
    return result.view(*node.meta["val"].shape).node


def _by_halves(builder: Builder, node: Node) -> Node | None:
    """Takes the maxima of all windows of about half the size, and then of two such windows at a distance."""
    x, lines = value_of(builder, bind(node)["x"]), _lines(node)
    if len(lines) != 1:
        return None
    ((dim, line),) = lines.items()
    first = line.kernel // 2 + 1
    if line.kernel <= 2:
        return None
    halves = _pooled(x, dim, line._replace(kernel=first, stride=1))
    return _pooled(halves, dim, _Line(line.kernel - first + 1, line.stride, 0, 0)).node


REWRITES: Final = (
    Rewrite(NHWC.max_pool2d.default, _by_dimension, note="columns, and then rows"),
    Rewrite(NHWC.max_pool2d.default, _by_blocks, note="pools of blocks of one stride"),
    Rewrite(NHWC.max_pool2d.default, _by_halves, note="two pools of about half the size"),
)
