# SPDX-License-Identifier: Apache-2.0
"""Attention to a cache: only to the rows that its mask allows, those up to the last query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
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

ROWS: Final = 2
"""The dimension of the rows of a cache."""
_BY_ELEMENT: Final = (aten._to_copy.default, aten.mul.Tensor)


@dataclass(frozen=True)
class Allowed:
    """The rows of a cache that a mask allows.

    Attributes:
        span: the positions of the queries: rows after their last one are not allowed.
        length: rows of the cache.
        is_causal: whether all rows up to each query are allowed, and the last ones are those of the call.
    """

    span: Span
    length: int
    is_causal: bool


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
        length = shape_of(node)[ROWS]
        if not operands or not all(
            same_sizes(shape_of(each)[ROWS : ROWS + 1], (length,)) for each in operands
        ):
            return self.of(b, b.of(node), ROWS)
        parts = [b.converted(self.rows(b, each), dtype_of(node)) for each in operands]
        if len(parts) == 1:
            return parts[0]
        out = b.temporary(parts[0].shape, dtype_of(node))
        b.emit("Multiply", a=parts[0], b=parts[1], out=out)
        return out


def filled_rows(b: GraphBuilder, node: Node) -> Filled | None:
    """Returns the rows of keys that the mask of attention allows; None if it may allow all of them."""
    known = b.shared(("filled rows", b.program.method), lambda: FilledRows(Builder(b.program, b.facts)))
    allowed = allowed_rows(known, node, b.facts.constant)
    if allowed is None:
        return None
    if allowed.is_causal:
        return Filled(checked_bounds_of(b, allowed.span, allowed.length)[1], True)
    # rows that are used again have positions beyond the last one, and slices end there
    return Filled(bounds_of(b, allowed.span)[1], False)


def allowed_rows(known: FilledRows, node: Node, constant: Callable[[Node], Tensor | None]) -> Allowed | None:
    """Returns the rows of keys that the mask of attention allows; None if it may allow all of them.

    Args:
        known: the masks of the program.
        node: the call of attention.
        constant: returns the value of a constant node, and None for other nodes.
    """
    bound = bind(node)
    mask, length, queries = bound["attn_mask"], shape_of(bound["key"])[ROWS], shape_of(bound["query"])[2]
    if mask is None or dtype_of(mask) != torch.bool or bound["is_causal"] or not isinstance(length, int):
        return None
    found = known.positions(mask, length)
    # with another count, the first query may not attend to any row
    span = None if found is None or found[1] != 1 else span_of(found[0], constant)
    if span is None or sizes_key([span.count]) != sizes_key([queries]):
        return None
    while mask.target in RESHAPES:
        mask = bind(mask)["self"]
    *leading, rows, _ = sizes_key(shape_of(mask))
    is_matrix = {*leading} <= {1} and (rows,) == sizes_key([queries])
    is_causal = known.compares(mask) and is_matrix and _is_written(bound["key"], span, length, constant)
    return Allowed(span, length, is_causal)


def _is_written(keys: Node, span: Span, length: int, constant: Callable[[Node], Tensor | None]) -> bool:
    """Whether keys have new rows at the positions of the queries, so that the cache has these positions."""
    while keys.target in _BY_ELEMENT:
        keys = bind(keys)["self"]
    if keys.target is not aten.index_put.default or not same_sizes(
        shape_of(keys)[ROWS : ROWS + 1], (length,)
    ):
        return False
    indices = bind(keys)["indices"]
    index = indices[ROWS] if len(indices) > ROWS else None
    written = None if index is None else span_of(index, constant)
    return written is not None and written.key == span.key
