# SPDX-License-Identifier: Apache-2.0
"""Reader of the dtype and shape of a tensor, in a program or a data file."""

from __future__ import annotations

import math
from dataclasses import dataclass

from delegatec.flatbuffer import Table
from delegatec.program.reader.types import SCALAR_KINDS, ScalarKind

# The limits of the runtime: dimensions, and addressable bytes.
_MAX_RANK = 16
_MAX_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Shape:
    """Dtype, sizes, and dimensions from outermost to innermost in memory."""

    kind: ScalarKind
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Number of bytes of its elements."""
        return math.prod(self.sizes) * self.kind.itemsize


def read_shape(table: Table) -> Shape:
    """Reads and checks a table with scalar_type, sizes and dim_order."""
    kind = SCALAR_KINDS.get(table.scalar("ScalarType"))
    if kind is None:
        table.fail(f"unknown scalar type {table.scalar('ScalarType')}")
    sizes: tuple[int, ...] = table.array("Sizes")
    dim_order: tuple[int, ...] = table.array("DimOrder") or tuple(range(len(sizes)))
    if len(sizes) > _MAX_RANK:
        table.fail(f"{len(sizes)} dimensions; the runtime supports {_MAX_RANK}")
    if any(size < 0 for size in sizes):
        table.fail(f"negative sizes: {sizes}")
    if sorted(dim_order) != list(range(len(sizes))):
        table.fail(f"dim_order {dim_order[:_MAX_RANK]} is not a permutation of {len(sizes)} dimensions")
    shape = Shape(kind, sizes, dim_order)
    if shape.nbytes > _MAX_BYTES:
        table.fail(f"sizes {sizes} overflow")
    return shape
