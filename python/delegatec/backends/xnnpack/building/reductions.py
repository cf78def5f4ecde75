# SPDX-License-Identifier: Apache-2.0
"""Reductions along dimensions, which are kept with size one; each function returns the id of the result.

XNNPACK has the mean of two dimensions and the maximum of a window. All others are products with a constant
row: for 197 x 768 elements, the mean of rows takes half of the time of a pooling. Such a product computes as
many columns as a tile has, up to 32, so that a pooling of wide rows to 64 columns before it takes less time:
with the operations that follow a mean, 32 instead of 53 microseconds for 128 x 768 elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder, Size
from delegatec.backends.xnnpack.building.operations import converted, fully_connected, multiplied, reshaped
from delegatec.backends.xnnpack.flags import KEEPS_DIMENSIONS
from delegatec.edge.symbols import is_dynamic

# Columns that a pooling of wide rows leaves, and what it needs to gain: with 2 or 3 pixels it takes longer.
_COLUMNS: Final = 64
_LEAST_PIXELS: Final = 4
_LEAST_ROWS: Final = 8

_Reduce = Callable[[GraphBuilder, int, tuple[Size, ...], int, Size], int]
"""Reduces the middle of three dimensions: outer size, size, and inner size."""


def mean_of(b: GraphBuilder, id: int, dims: Sequence[int]) -> int:
    """Emits the mean along dimensions.

    The runtime sums pixels of other types than float32 in a buffer, and plans its size for the first run: a
    batch that grows later, up to its declared size, would be written beyond the end.
    """
    if is_pooled(len(b.shape_of(id)), dims):
        return _pooled_mean(b, id)
    return _along(b, id, dims, _weighted(None))


def is_pooled(rank: int, dims: Sequence[int]) -> bool:
    """Whether a mean is over rows and columns of images, which may have any size."""
    return rank > 3 and sorted(dims) == [rank - 3, rank - 2]


def sum_of(b: GraphBuilder, id: int, dims: Sequence[int]) -> int:
    """Emits the sum along dimensions."""
    return _along(b, id, dims, _weighted(1.0))


def largest_of(b: GraphBuilder, id: int, dims: Sequence[int]) -> int:
    """Emits the maximum along dimensions."""
    return _along(b, id, dims, _pooled_maximum)


def _runs(dims: Sequence[int]) -> list[list[int]]:
    """Returns the groups of adjacent dimensions, the last one first."""
    runs: list[list[int]] = []
    for dim in sorted(dims, reverse=True):
        if runs and runs[-1][0] == dim + 1:
            runs[-1].insert(0, dim)
        else:
            runs.append([dim])
    return runs


def _along(b: GraphBuilder, id: int, dims: Sequence[int], reduce: _Reduce) -> int:
    """Reduces each group of adjacent dimensions as one."""
    for run in _runs(dims):
        shape = b.shape_of(id)
        outer, inner = shape[: run[0]], shape[run[-1] + 1 :]
        size, rest = (math.prod(each) for each in (shape[run[0] : run[-1] + 1], inner))
        assert isinstance(size, int)  # a dynamic size would become that of the example
        id = reduce(b, id, outer, size, rest)
        id = reshaped(b, id, [*outer, *[1] * len(run), *inner])
    return id


def _weighted(weight: float | None) -> _Reduce:
    """Returns a sum of equally weighted elements; without a weight, their mean."""

    def reduce(b: GraphBuilder, id: int, outer: tuple[Size, ...], size: int, rest: Size) -> int:
        dtype, each = b.dtype_of(id), 1 / size if weight is None else weight
        if isinstance(rest, int) and rest == 1:
            if _is_wide(outer, size, dtype):
                pixels = size // _COLUMNS
                id = _pooled_mean(b, reshaped(b, id, [math.prod(outer), pixels, 1, _COLUMNS]))
                size, each = _COLUMNS, each * pixels
            id = reshaped(b, id, [*outer, size])
            return fully_connected(b, id, _row(b, [1, size], each, dtype))
        id = reshaped(b, id, [*outer, size, rest])
        return multiplied(b, _row(b, [*[1] * len(outer), 1, size], each, dtype), id)

    return reduce


def _is_wide(outer: tuple[Size, ...], size: int, dtype: torch.dtype) -> bool:
    """Whether rows are pooled before they are multiplied: the runtime pools float32 without a buffer."""
    has_columns = size % _COLUMNS == 0 and size >= _COLUMNS * _LEAST_PIXELS
    is_many = not is_dynamic(outer) and math.prod(outer) >= _LEAST_ROWS
    return is_many and has_columns and dtype == torch.float32


def _row(b: GraphBuilder, shape: list[int], weight: float, dtype: torch.dtype) -> int:
    return b.shared(("row", *shape, weight, dtype), lambda: b.constant(torch.full(shape, weight), dtype))


def _pooled_mean(b: GraphBuilder, id: int) -> int:
    dtype, shape = b.type_of(id)
    sizes = [*shape[:-3], 1, 1, shape[-1]]
    if is_dynamic(sizes):
        id = converted(b, id, torch.float32)
    out = b.temporary(sizes, b.dtype_of(id))
    b.emit(Operation.GlobalAveragePooling, schema.UnaryT(id, out, KEEPS_DIMENSIONS))
    return converted(b, out, dtype)


def _pooled_maximum(b: GraphBuilder, id: int, outer: tuple[Size, ...], size: int, rest: Size) -> int:
    batch: Any = math.prod(outer)
    image = reshaped(b, id, [batch, size, 1, rest])
    out = b.temporary([batch, 1, 1, rest], b.dtype_of(id))
    table = schema.PoolingT(
        poolingHeight=size,
        poolingWidth=1,
        strideHeight=1,
        strideWidth=1,
        dilationHeight=1,
        dilationWidth=1,
        inputId=image,
        outputId=out,
    )
    b.emit(Operation.MaxPooling, table)
    return out
