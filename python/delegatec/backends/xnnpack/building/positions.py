# SPDX-License-Identifier: Apache-2.0
"""Maxima and their indices.

The runtime computes the maxima and their indices in windows. It crashes if no operation reads the maxima.
Among equal elements, the first index counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import (
    binary,
    clamp,
    concatenated,
    fully_connected,
    padded,
    reshaped,
    sliced,
    transposed,
    unary,
)


def largest_in_windows(b: GraphBuilder, id: int, kernel: Sequence[int]) -> tuple[int, int]:
    """Emits maxima of adjacent windows and their indices, both in float32.

    Args:
        b: the graph.
        id: images, [N, H, W, C], float32; rows and columns are static.
        kernel: rows and columns of a window: more than one element.

    Returns:
        The maxima and the indices, [N, H / rows, W / columns, C]. Indices count the elements of a window
        column by column.
    """
    batch, *sizes, channels = b.shape_of(id)
    rows, columns = (int(size) // length for size, length in zip(sizes, kernel, strict=True))
    shape = [batch, rows, columns, channels]
    values = b.temporary(shape, torch.float32)
    places = b.value(DataType.INT32, shape, torch.int32)
    b.emit(Operation.ArgMaxPooling, schema.ArgMaxPoolingT(0, 0, 0, 0, *kernel, id, values, places, 0))
    numbers = b.convert(places, b.temporary(shape, torch.float32))
    both = concatenated(b, [values, numbers], 1)
    return values, sliced(b, both, 1, rows, 2 * rows)


def largest_of_long_rows(b: GraphBuilder, id: int) -> tuple[int, int]:
    """Emits maxima and indices of a few long rows, both in float32.

    The pieces of a row are channels, which the runtime compares in parallel. Then the first piece with the
    largest maximum is found: its index selects among the indices in all pieces.

    Args:
        b: the graph.
        id: [rows, elements], float32; both are static.

    Returns:
        The maxima and the indices, [rows, 1, 1, 1]: the first ones among equal elements.
    """
    rows, elements = map(int, b.shape_of(id))
    root = math.isqrt(elements)
    count = next((size for size in range(root, root // 8, -1) if elements % size == 0), root)
    length = -(-elements // count)
    whole = padded(b, id, [0, 0], [0, count * length - elements], -math.inf)
    columns = transposed(b, reshaped(b, whole, [rows, count, length]), [0, 2, 1])
    found, places = largest_in_windows(b, reshaped(b, columns, [rows, length, 1, count]), (length, 1))
    values, piece = largest_in_windows(b, reshaped(b, found, [rows, count, 1, 1]), (count, 1))
    numbers = torch.arange(count, dtype=torch.float32)
    starts, order = (b.constant(each, torch.float32) for each in (numbers * length, numbers))
    distance = binary(b, Operation.Subtract, reshaped(b, piece, [rows, 1]), order)
    others = clamp(b, unary(b, Operation.Absolute, distance), 0.0, 1.0)
    chosen = binary(b, Operation.Subtract, 1.0, others)
    whole = binary(b, Operation.Add, reshaped(b, places, [rows, count]), starts)
    ones = b.constant(torch.ones(1, count), torch.float32)
    place = fully_connected(b, binary(b, Operation.Multiply, whole, chosen), ones)
    return values, reshaped(b, place, [rows, 1, 1, 1])


def largest_alone(b: GraphBuilder, id: int, kernel: Sequence[int]) -> int:
    """Emits the maxima of `largest_in_windows` without their indices."""
    batch, *sizes, channels = b.shape_of(id)
    rows, columns = (int(size) // length for size, length in zip(sizes, kernel, strict=True))
    values = b.temporary([batch, rows, columns, channels], torch.float32)
    b.emit(Operation.MaxPooling, schema.PoolingT(0, 0, 0, 0, *kernel, *kernel, 1, 1, id, values, 0))
    return values


def integers(b: GraphBuilder, id: int) -> int:
    """Emits integral floats as int32, which the runtime widens to a caller's int64."""
    return b.convert(id, b.value(DataType.INT32, b.shape_of(id), torch.int32))
