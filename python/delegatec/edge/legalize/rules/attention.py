# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention without the guard of torch's own decomposition.

Softmax of a row that is minus infinity everywhere is NaN, and torch defines attention on such a row as
zero. Its decomposition therefore tests every row of the scores (`any`, `logical_not`, `full_like`,
`where`), with operators that delegates do not support. Here no score is minus infinity: a masked score is the
lowest finite number of its dtype, whose weight is exactly 0 if the row has a score that is not masked. If the
mask may have fully masked rows, the result is multiplied by "this row is not fully masked", which depends on
the mask alone and is shared by all layers with the same mask.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.legalize.rules.batched_matmul import batched_matmul

aten = torch.ops.aten


def _attention(b: Builder, node: Node) -> Node | None:
    arguments = bind(node)
    query, key, value = arguments["query"], arguments["key"], arguments["value"]
    if arguments["dropout_p"] or len(shape_of(query)) < 2:
        return None
    rows, columns = shape_of(query)[-2], shape_of(key)[-2]
    if arguments["enable_gqa"]:
        key, value = (_repeat_heads(b, x, shape_of(query)[-3]) for x in (key, value))

    scale = arguments["scale"]
    scaled = b.call(aten.mul.Scalar, query, 1.0 / math.sqrt(shape_of(query)[-1]) if scale is None else scale)
    scores = batched_matmul(b, scaled, _transpose(b, key))
    scores, row_is_alive = _mask(b, scores, arguments["attn_mask"], arguments["is_causal"], rows, columns)
    weights = b.call(aten._softmax.default, scores, len(shape_of(scores)) - 1, False)
    result = batched_matmul(b, weights, value)
    return result if row_is_alive is None else b.call(aten.mul.Tensor, result, row_is_alive)


def _mask(
    b: Builder, scores: Node, mask: Node | None, is_causal: bool, rows: Any, columns: Any
) -> tuple[Node, Node | None]:
    """Returns masked scores, and 0 for each fully masked row, else 1 (None if there is no such row)."""
    if is_causal:
        row = b.call(aten.unsqueeze.default, b.call(aten.arange.start_step, 0, rows, 1), 1)
        column = b.call(aten.arange.start_step, 0, columns, 1)
        # the diagonal is kept, so that no row is fully masked
        return _where(b, b.call(aten.ge.Tensor, row, column), scores), None
    if mask is None:
        return scores, None
    if dtype_of(mask) is torch.bool:
        return _where(b, mask, scores), any_in_row(b, mask, dtype_of(scores))
    masked = b.call(aten.add.Tensor, scores, mask)
    if b.facts.of(mask).low > -math.inf:
        return masked, None
    allowed = b.call(aten.ne.Scalar, mask, -math.inf)
    return _where(b, allowed, masked), any_in_row(b, allowed, dtype_of(scores))


def _where(b: Builder, mask: Node, scores: Node) -> Node:
    return b.call(aten.where.self, mask, scores, lowest(b, dtype_of(scores)))


def lowest(b: Builder, dtype: torch.dtype) -> Node:
    """Returns the score of masked elements, the lowest finite number."""
    return b.call(aten.full.default, [], torch.finfo(dtype).min, dtype=dtype)


def any_in_row(b: Builder, mask: Node, dtype: torch.dtype) -> Node:
    """Returns 0 for each row of a mask that is false everywhere, else 1."""
    share = b.call(aten.mean.dim, b.call(aten._to_copy.default, mask, dtype=dtype), [-1], True)
    return b.call(aten._to_copy.default, b.call(aten.gt.Scalar, share, 0), dtype=dtype)


def _transpose(b: Builder, x: Node) -> Node:
    rank = len(shape_of(x))
    return b.call(aten.permute.default, x, [*range(rank - 2), rank - 1, rank - 2])


def _repeat_heads(b: Builder, x: Node, heads: int) -> Node:
    """Repeats each head: [*, H, S, E] -> [*, heads, S, E]."""
    *outer, own, length, width = shape_of(x)
    if own == heads:
        return x
    grouped = b.call(aten.unsqueeze.default, x, len(outer) + 1)
    repeated = b.call(aten.expand.default, grouped, [*outer, own, heads // own, length, width])
    return b.call(aten.view.default, repeated, [*outer, heads, length, width])


RULES: RuleTable = {aten.scaled_dot_product_attention.default: _attention}
