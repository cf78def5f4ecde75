# SPDX-License-Identifier: Apache-2.0
"""Causal masks of dynamic sizes. XNNPACK has no iota, so convolutions count the positions."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import (
    binary,
    clamp,
    converted,
    reshaped,
    sliced,
    transposed,
)
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.edge.symbols import largest, sizes_key

_RADIX: Final = 16
"""Number of elements that one convolution sums."""


def causal(b: GraphBuilder, query: int, key: int, rank: int) -> int:
    """Emits 1 where the position in the query is not before that in the key, else 0.

    Args:
        b: the graph.
        query: [.., rows, depth]; finite values.
        key: [.., columns, depth]; likewise.
        rank: of the result, [1, .., rows, columns].
    """
    rows, columns = (b.shape_of(id)[-2] for id in (query, key))

    def make() -> int:
        own, others = (reshaped(b, _counts(b, id), [*[1] * (rank - 2), size, 1]) for id, size in sizes)
        order = [*range(rank - 2), rank - 1, rank - 2]
        ahead = binary(b, Operation.Subtract, own, transposed(b, others, order))
        return clamp(b, binary(b, Operation.Add, ahead, 1.0), 0.0, 1.0)

    sizes = ((query, rows), (key, columns))
    found = b.shared(("causal", *sizes_key([rows, columns]), rank), make)
    return converted(b, found, b.dtype_of(query))


def _counts(b: GraphBuilder, id: int) -> int:
    """Emits 1, 2, .. for the rows of a value, [1, 1, rows, 1].

    Each convolution adds preceding elements, at a distance equal to the number of elements summed so far.
    """
    shape = b.shape_of(id)
    rows = shape[-2]

    def make() -> int:
        column = converted(b, id, torch.float32)
        for dim in range(len(shape)):
            if dim != len(shape) - 2:
                column = sliced(b, column, dim, 0, 1)
        total = clamp(b, reshaped(b, column, [1, 1, rows, 1]), 1.0, 1.0)
        most, distance = largest(rows) or 1, 1
        while distance < most:
            total = _summed(b, total, distance)
            distance *= _RADIX
        return total

    return b.shared(("counts", *sizes_key([rows])), make)


def _summed(b: GraphBuilder, id: int, distance: int) -> int:
    """Emits the sum of each element and the preceding ones at a distance."""
    ones = b.shared(("ones", _RADIX), lambda: b.constant(torch.ones(1, 1, _RADIX, 1), torch.float32))
    out = b.temporary(b.shape_of(id), torch.float32)
    before = (_RADIX - 1) * distance
    fields = (0, 0, 0, before, 1, _RADIX, 1, 1, 1, distance, 1, 1, 1, 0, 0)
    b.emit(Operation.Convolution, schema.ConvolutionT(*fields, id, ones, NO_VALUE, out, 0))
    return out
