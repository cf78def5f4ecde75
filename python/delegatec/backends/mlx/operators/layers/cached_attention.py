# SPDX-License-Identifier: Apache-2.0
"""Attention to a cache: only to the rows that its mask allows, those up to the last query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import sliced
from delegatec.backends.mlx.building.values import Array, Int
from delegatec.backends.mlx.operators.positions import Span, bounds_of, checked_bounds_of, span_of
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.filled_rows import RESHAPES, FilledRows
from delegatec.edge.symbols import same_sizes, sizes_key

aten = torch.ops.aten

_ROWS: Final = 2
"""The dimension of the rows of a cache."""
_BY_ELEMENT: Final = (aten._to_copy.default, aten.mul.Tensor)


@dataclass(frozen=True)
class Filled:
    """The filled rows of a cache.

    Attributes:
        end: the row after them.
        is_causal: whether the mask allows all of them up to each query: the causal mask of the format, whose
            last row and column are those of the last query.
    """

    end: Int
    is_causal: bool

    def of(self, b: GraphBuilder, x: Array, dim: int) -> Array:
        """Emits the slice of them, once."""
        shape = [-1 if each == dim else size for each, size in enumerate(x.shape)]
        return b.shared(("filled", x, dim, self.end), lambda: sliced(b, x, dim, Int(0), self.end, shape))

    def rows(self, b: GraphBuilder, node: Node) -> Array:
        """Emits the filled rows of keys or values; a quantized cache is sliced before it is scaled."""
        bound = bind(node) if node.target in _BY_ELEMENT else {}
        operands = [bound[name] for name in ("self", "other") if name in bound]
        length = shape_of(node)[_ROWS]
        if not operands or not all(
            same_sizes(shape_of(each)[_ROWS : _ROWS + 1], (length,)) for each in operands
        ):
            return self.of(b, b.of(node), _ROWS)
        parts = [b.converted(self.rows(b, each), dtype_of(node)) for each in operands]
        if len(parts) == 1:
            return parts[0]
        out = b.temporary(parts[0].shape, dtype_of(node))
        b.emit("Multiply", a=parts[0], b=parts[1], out=out)
        return out


def filled_rows(b: GraphBuilder, node: Node) -> Filled | None:
    """Returns the rows of keys that the mask of attention allows; None if it may allow all of them."""
    bound = bind(node)
    mask, length, queries = bound["attn_mask"], shape_of(bound["key"])[_ROWS], shape_of(bound["query"])[2]
    if mask is None or dtype_of(mask) != torch.bool or bound["is_causal"] or not isinstance(length, int):
        return None
    known = b.shared(("filled rows", b.program.method), lambda: FilledRows(Builder(b.program, b.facts)))
    found = known.positions(mask, length)
    # with another count, the first query may not attend to any row
    span = None if found is None or found[1] != 1 else span_of(found[0], b.facts.constant)
    if span is None or sizes_key([span.count]) != sizes_key([queries]):
        return None
    while mask.target in RESHAPES:
        mask = bind(mask)["self"]
    *leading, rows, _ = sizes_key(shape_of(mask))
    is_matrix = {*leading} <= {1} and (rows,) == sizes_key([queries])
    if known.compares(mask) and is_matrix and _is_written(b, bound["key"], span, length):
        return Filled(checked_bounds_of(b, span, length)[1], True)
    # rows that are used again have positions beyond the last one, and slices end there
    return Filled(bounds_of(b, span)[1], False)


def _is_written(b: GraphBuilder, keys: Node, span: Span, length: int) -> bool:
    """Whether keys have new rows at the positions of the queries, so that the cache has these positions."""
    while keys.target in _BY_ELEMENT:
        keys = bind(keys)["self"]
    if keys.target is not aten.index_put.default or not same_sizes(
        shape_of(keys)[_ROWS : _ROWS + 1], (length,)
    ):
        return False
    indices = bind(keys)["indices"]
    index = indices[_ROWS] if len(indices) > _ROWS else None
    written = None if index is None else span_of(index, b.facts.constant)
    return written is not None and written.key == span.key
