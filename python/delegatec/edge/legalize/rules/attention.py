# SPDX-License-Identifier: Apache-2.0
"""Scaled dot product attention without the guard of torch's own decomposition.

Softmax of a row that is minus infinity everywhere is NaN, and torch defines attention on such a row as
zero. Its decomposition therefore tests every row of the scores (`any`, `logical_not`, `full_like`,
`where`), with operators that delegates do not support. Here no score is minus infinity: a masked score is the
lowest finite value of its dtype, whose weight is exactly 0 if the row has a score that is not masked. If the
mask may have fully masked rows, the result is multiplied by "this row is not fully masked", which depends on
the mask alone and is shared by all layers with the same mask.

For a target with attention of equal heads and additive masks, groups of heads become rows of one head.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.rules.linear import batched_matmul
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

_ATTENTION: Final = aten.scaled_dot_product_attention.default
_RANK: Final = 4
# Up to this many bytes, masks are constants.
_SMALL: Final = 1 << 16


# ---- by products and softmax -----------------------------------------------------------------------------


def _attention(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    query, key, value = (value_of(builder, bound[name]) for name in ("query", "key", "value"))
    if bound["dropout_p"] or query.rank < 2:
        return None
    rows, columns = query.shape[-2], key.shape[-2]
    if bound["enable_gqa"]:
        key, value = (_repeat_heads(each, query.shape[-3]) for each in (key, value))
    scaled = query * (1.0 / math.sqrt(query.shape[-1]) if bound["scale"] is None else bound["scale"])
    last = key.rank - 1
    scores = batched_matmul(scaled, key.permute(*range(last - 1), last, last - 1))
    masked, alive = _mask(builder, scores.node, bound["attn_mask"], bound["is_causal"], rows, columns)
    weights = value_of(builder, masked).softmax(scores.rank - 1)
    result = batched_matmul(weights, value)
    return (result if alive is None else result * value_of(builder, alive)).node


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
    """Returns the score of masked elements, the lowest finite value."""
    return b.call(aten.full.default, [], torch.finfo(dtype).min, dtype=dtype)


def any_in_row(b: Builder, mask: Node, dtype: torch.dtype) -> Node:
    """Returns 0 for each row of a mask that is false everywhere, else 1."""
    share = b.call(aten.mean.dim, b.call(aten._to_copy.default, mask, dtype=dtype), [-1], True)
    return b.call(aten._to_copy.default, b.call(aten.gt.Scalar, share, 0), dtype=dtype)


def _repeat_heads(x: Value, heads: int) -> Value:
    """Repeats each head: [*, H, S, E] -> [*, heads, S, E]."""
    *outer, own, length, width = x.shape
    if own == heads:
        return x
    shared = value_of(x.builder, x.builder.call(aten.unsqueeze.default, x.node, len(outer) + 1))
    return shared.expand(*outer, own, heads // own, length, width).view(*outer, heads, length, width)


# ---- equal heads, and a finite mask that is added --------------------------------------------------------


def _of_equal_heads(builder: Builder, node: Node) -> Node | None:
    """Views heads that share keys as rows of one head, and adds masks as finite values."""
    bound = bind(node)
    operands = [value_of(builder, bound[name]) for name in ("query", "key", "value")]
    shapes = [each.shape for each in (*operands, Value(builder, node))]
    if any(type(size) is not int for shape in shapes for size in shape) or len(shapes[0]) < 2:
        return None
    query, key, value = map(_with_four_dimensions, operands)
    (batch, heads, rows, depth), (_, groups, columns, _) = query.shape, key.shape
    is_grouped = bool(bound["enable_gqa"]) and groups != heads
    is_supported = key.shape == value.shape == (batch, groups, columns, depth) and shapes[0] == shapes[-1]
    if not is_supported or not (is_grouped or groups == heads):
        return None
    mask, alive = _bias(builder, bound, rows, columns, query.dtype)
    if mask is not None:
        mask = _of_scores(mask, shapes[0], columns)
        if mask is None:
            return None
    if is_grouped:
        query = query.view(batch, groups, heads // groups * rows, depth)
        mask = mask and _grouped(mask, heads, rows, groups)
    empty = builder.empty(query.shape, query.dtype)
    arguments = (query.node, key.node, value.node, mask and mask.node)
    result = Value(builder, builder.call(_ATTENTION, *arguments, scale=bound["scale"], val=empty))
    result = result.view(*shapes[-1])
    return (result if alive is None else result * alive).node


def _with_four_dimensions(x: Value) -> Value:
    *outer, rows, columns = x.shape
    heads = outer[-1] if outer else 1
    return x.view(math.prod(outer[:-1]), heads, rows, columns)


def _bias(
    builder: Builder, bound: dict[str, Any], rows: int, columns: int, dtype: torch.dtype
) -> tuple[Value | None, Value | None]:
    """Returns the values that are added to scores, and 0 for each fully masked row, if there may be any."""
    mask = bound["attn_mask"]
    if mask is None and not bound["is_causal"]:
        return None, None
    known = (
        torch.ones(rows, columns, dtype=torch.bool).tril() if mask is None else builder.facts.constant(mask)
    )
    if known is not None and known.numel() * dtype.itemsize <= _SMALL:
        return _constant_bias(builder, known, dtype)
    if mask is None:
        row, column = (value_of(builder, builder.constant(torch.arange(size))) for size in (rows, columns))
        return _added(builder, row.view(rows, 1).ge(column), dtype), None
    given = value_of(builder, mask)
    if given.dtype == torch.bool:
        return _added(builder, given, dtype), value_of(builder, any_in_row(builder, mask, dtype))
    if builder.facts.of(mask).low > -math.inf:
        return given, None
    allowed = given.ne(-math.inf).node
    return given.clamp(torch.finfo(dtype).min), value_of(builder, any_in_row(builder, allowed, dtype))


def _constant_bias(
    builder: Builder, mask: torch.Tensor, dtype: torch.dtype
) -> tuple[Value | None, Value | None]:
    limits = torch.finfo(dtype)
    allowed = mask if mask.dtype == torch.bool else mask > -math.inf
    bias = torch.where(allowed, 0.0 if mask.dtype == torch.bool else mask, limits.min)
    bias = bias.clamp(limits.min, limits.max).to(dtype)
    alive = allowed.any(-1, keepdim=True)
    result = Value(builder, builder.constant(bias))
    return result, None if alive.all() else Value(builder, builder.constant(alive.to(dtype)))


def _added(builder: Builder, mask: Value, dtype: torch.dtype) -> Value:
    return mask.where(full(builder, (), 0.0, dtype), value_of(builder, lowest(builder, dtype)))


def _of_scores(mask: Value, shape: Sequence[int], columns: int) -> Value | None:
    """Returns a mask in a shape that broadcasts to scores of four dimensions, if there is one.

    Args:
        mask: of scores.
        shape: of the queries, of any rank.
        columns: the number of keys.
    """
    if mask.rank > _RANK:
        batch, inner = mask.shape[: 1 - _RANK], mask.shape[1 - _RANK :]
        if set(batch) > {1} and batch != tuple(shape[: 1 - _RANK]):
            return None
        mask = mask.view(math.prod(batch), *inner)
    elif mask.rank == _RANK < len(shape) and mask.shape[0] > 1:
        return None
    return mask.expand(*mask.shape[:-1], columns)


def _grouped(mask: Value, heads: int, rows: int, groups: int) -> Value:
    """Returns the mask of the rows of all heads in a group."""
    batch, given, height, columns = (*[1] * (_RANK - mask.rank), *mask.shape)
    if given == height == 1:
        return mask
    if given == 1:
        copies = [mask.node] * (heads // groups)
        return Value(mask.builder, mask.builder.call(aten.cat.default, copies, mask.rank - 2))
    mask = mask.view(batch, given, height, columns).expand(batch, heads, rows, columns)
    return mask.view(batch, groups, heads // groups * rows, columns)


RULES: Final[RuleTable] = {_ATTENTION: _attention}

OF_EQUAL_HEADS: Final = Rewrite(
    _ATTENTION, _of_equal_heads, note="groups of heads as rows of one head, finite masks"
)
BY_PRODUCTS: Final = Rewrite(_ATTENTION, _attention, note="bmm, softmax, bmm")
