# SPDX-License-Identifier: Apache-2.0
"""Broadcasts along dimensions, as products with ones: XNNPACK has no operation that only copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder, Size
from delegatec.backends.xnnpack.building.operations import binary, converted, padded, reshaped, sliced
from delegatec.backends.xnnpack.building.views import viewed
from delegatec.backends.xnnpack.dtypes import FLOATS
from delegatec.backends.xnnpack.operands import result_ids
from delegatec.edge.symbols import sizes_key


def expanded(b: GraphBuilder, id: int, shape: Sequence[Size]) -> int:
    """Emits copies along dimensions of size one, unless there are none.

    A dynamic size is that of another value that has been emitted already.

    Args:
        b: the graph.
        id: the value.
        shape: of the result.
    """
    old, dtype = b.shape_of(id), b.dtype_of(id)
    id = viewed(b, id, [*[1] * (len(shape) - len(old)), *old])
    have, want = sizes_key(b.shape_of(id)), sizes_key(shape)
    copies = [1 if own == other else size for own, other, size in zip(have, want, shape, strict=True)]
    fixed = [size if isinstance(size, int) else 1 for size in copies]
    if math.prod(fixed) > 1:
        key = ("ones", tuple(fixed), dtype)
        ones = b.shared(key, lambda: b.constant(torch.ones(fixed, dtype=dtype), dtype))
        id = binary(b, Operation.Multiply, id, ones)
    for dim, size in enumerate(copies):
        if not isinstance(size, int):
            sizes = [size if other == dim else 1 for other in range(len(shape))]
            row = reshaped(b, _ones(b, size, dtype), sizes)
            id = binary(b, Operation.Multiply, id, row)
    return id


def _ones(b: GraphBuilder, size: Size, dtype: torch.dtype) -> int:
    """Emits as many ones as a dynamic size, [1, size].

    They pad a row of another value, whose elements may be any bits: only its size is used.
    """
    (key,) = sizes_key([size])

    def make() -> int:
        id, dim = _with_size(b, key)
        if b.dtype_of(id) not in FLOATS:
            id = converted(b, id, torch.float32)
        for other, length in enumerate(b.shape_of(id)):
            if other != dim and length != 1:
                id = sliced(b, id, other, 0, 1)
        row = converted(b, reshaped(b, id, [1, size]), dtype)
        return sliced(b, padded(b, row, [1, 0], [0, 0], 1.0), 0, 0, 1)

    return b.shared(("ones of a size", key, dtype), make)


def _with_size(b: GraphBuilder, key: int | str) -> tuple[int, int]:
    """Returns an emitted value and its dimension with a size, given by its `sizes_key`."""
    results = (id for step in b.draft.steps for id in result_ids(step.node))
    for id in (*b.draft.inputs, *results):
        keys = sizes_key(b.shape_of(id))
        if key in keys:
            return id, keys.index(key)
    raise AssertionError(f"no value has the size {key}")  # excluded by a constraint of the row
