# SPDX-License-Identifier: Apache-2.0
"""Attention of each head separately, for operands that are stacks of heads.

It is as fast as attention of all heads at once, and it needs no views, which cannot express that both batch
and length are dynamic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, multiplied, sliced, softmax_of_rows
from delegatec.backends.xnnpack.building.views import viewed


@dataclass(frozen=True)
class Mask:
    """The effect of a mask on scores.

    Attributes:
        limit: the upper limit of each score; the lowest finite float if it is masked.
        shift: the addend of each score.
        alive: 0 for each fully masked row, else 1.
        kept: 0 for each score that is masked, else 1, instead of `alive` for rows of dynamic length.
    """

    limit: int | None = None
    shift: int | None = None
    alive: int | None = None
    kept: int | None = None


Head = tuple[int, int, int]
"""Query, key and value of a head, [batch, rows, depth]."""


def parts_of_heads(
    b: GraphBuilder, query: int, key: int, value: int, is_divided: bool = False
) -> list[Head] | None:
    """Returns the operands of each head of the query, [.., heads, rows, depth].

    Args:
        b: the graph.
        query: all heads.
        key: as many, or a divisor of that.
        value: as many as of `key`.
        is_divided: whether heads are sliced unless they are a stack; None is returned otherwise.
    """
    found = []
    for id in (query, key, value):
        place = len(b.shape_of(id)) - 3
        axis, parts = b.stacks.get(id, (None, ()))
        if axis != place:
            if not is_divided:
                return None
            parts = tuple(_of_head(b, id, head) for head in range(int(b.shape_of(id)[place])))
        found.append(parts)
    queries, keys, values = found
    shared = len(queries) // len(keys)
    return [(query, keys[place // shared], values[place // shared]) for place, query in enumerate(queries)]


def attention_of_heads(b: GraphBuilder, heads: Sequence[Head], scale: float, mask: Mask) -> list[int]:
    """Emits attention of each head.

    Args:
        b: the graph.
        heads: the operands.
        scale: a factor of all scores.
        mask: of all heads.
    """
    found = []
    for place, (query, key, value) in enumerate(heads):
        if scale != 1:
            query = binary(b, Operation.Multiply, query, float(scale))
        limit, shift, alive, kept = (
            None if each is None else _of_head(b, each, place)
            for each in (mask.limit, mask.shift, mask.alive, mask.kept)
        )
        scores = multiplied(b, query, key, is_transposed=True)
        if limit is not None:
            scores = binary(b, Operation.Minimum, scores, limit)
        if shift is not None:
            scores = binary(b, Operation.Add, scores, shift)
        weights = softmax_of_rows(b, scores)
        if kept is not None:
            weights = binary(b, Operation.Multiply, weights, kept)
        result = multiplied(b, weights, value)
        found.append(result if alive is None else binary(b, Operation.Multiply, result, alive))
    return found


def _of_head(b: GraphBuilder, id: int, place: int) -> int:
    """Returns one head's part of operands or of a mask, which may be broadcast over the heads."""
    shape = b.shape_of(id)
    if len(shape) < 3:
        return id

    def make() -> int:
        one = id if shape[-3] == 1 else sliced(b, id, len(shape) - 3, place, place + 1)
        return viewed(b, one, [*shape[:-3], *shape[-2:]])

    return b.shared(("head", id, 0 if shape[-3] == 1 else place), make)
