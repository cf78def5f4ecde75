# SPDX-License-Identifier: Apache-2.0
"""Selections of elements along a dimension, and weighted sums of them; each function returns an id.

XNNPACK has neither: a few ranges become slices, and all others a product with a constant matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import (
    concatenated,
    fully_connected,
    multiplied,
    reshaped,
    sliced,
)

_MOST_SLICES: Final = 24
"""With more ranges, a product with zeros and ones is faster than their concatenation."""
_LARGEST: Final = 1 << 20
"""Its maximum size. Flipping 64 rows of 512, 1024 and 2048 elements by it takes 1.0, 1.9 and 4.3 times
as long as the portable kernel, and the last matrix is 16 MB of the file."""


def matmul_along_dim(b: GraphBuilder, id: int, dim: int, weights: int) -> int:
    """Emits weighted sums along a dimension.

    Args:
        b: the graph.
        id: a value; its size along the dimension is static.
        dim: the dimension.
        weights: a constant, [outputs, size].
    """
    shape = b.shape_of(id)
    before, behind = shape[:dim], shape[dim + 1 :]
    if not behind:
        return fully_connected(b, id, weights)
    rows = reshaped(b, id, [*before, shape[dim], math.prod(behind)])
    found = multiplied(b, weights, rows)
    return reshaped(b, found, [*before, b.shape_of(found)[-2], *behind])


def is_selected(places: Sequence[int], size: int) -> bool:
    """Whether `selected` pays off: the indices below `size` are a few ranges, or the matrix is small."""
    return len(_ranges(places)) <= _MOST_SLICES or len(places) * size <= _LARGEST


def selected(b: GraphBuilder, id: int, dim: int, places: Sequence[int]) -> int:
    """Emits the elements at constant indices of a dimension of static size."""
    ranges = _ranges(places)
    if len(ranges) <= _MOST_SLICES:
        parts = {each: sliced(b, id, dim, *each) for each in dict.fromkeys(ranges)}
        return concatenated(b, [parts[each] for each in ranges], dim)
    (dtype, shape), key = b.type_of(id), tuple(places)

    def make() -> int:
        chosen = torch.zeros(len(places), int(shape[dim]))
        chosen[range(len(places)), list(places)] = 1.0
        return b.constant(chosen, dtype)

    return matmul_along_dim(b, id, dim, b.shared(("places", key, shape[dim], dtype), make))


def _ranges(places: Sequence[int]) -> list[tuple[int, int]]:
    """Returns start and end of each run of consecutive indices."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
        else:
            found.append((place, place + 1))
    return found
