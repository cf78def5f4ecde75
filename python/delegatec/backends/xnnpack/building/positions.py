# SPDX-License-Identifier: Apache-2.0
"""Positions of the largest elements.

The runtime writes largest elements and positions of windows. It crashes if no operation reads the largest
elements. Positions are the first ones among equal elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import concatenated, sliced


def largest_in_windows(b: GraphBuilder, id: int, kernel: Sequence[int]) -> tuple[int, int]:
    """Emits maxima of windows side by side, and their positions, both in float32.

    Args:
        b: the graph.
        id: images, [N, H, W, C], float32; all sizes are static.
        kernel: rows and columns of a window: not one element.

    Returns:
        The maxima and the positions, [N, H / rows, W / columns, C]. Positions count the elements of a window
        column by column.
    """
    batch, *sizes, channels = map(int, b.shape_of(id))
    shape = [batch, *(size // length for size, length in zip(sizes, kernel, strict=True)), channels]
    values = b.temporary(shape, torch.float32)
    places = b.value(DataType.INT32, shape, torch.int32)
    b.emit(Operation.ArgMaxPooling, schema.ArgMaxPoolingT(0, 0, 0, 0, *kernel, id, values, places, 0))
    numbers = b.temporary(shape, torch.float32)
    b.emit(Operation.Convert, schema.UnaryT(places, numbers, 0))
    both = concatenated(b, [values, numbers], 1)
    return values, sliced(b, both, 1, shape[1], 2 * shape[1])


def integers(b: GraphBuilder, id: int) -> int:
    """Emits whole numbers as int32, which the runtime widens to a caller's int64."""
    out = b.value(DataType.INT32, b.shape_of(id), torch.int32)
    b.emit(Operation.Convert, schema.UnaryT(id, out, 0))
    return out
