# SPDX-License-Identifier: Apache-2.0
"""Attention in the form that the runtime has: equal heads, and a finite mask that is added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.attention import RULES, any_in_row, lowest
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

_ATTENTION: Final = aten.scaled_dot_product_attention.default
_RANK: Final = 4
# Up to this many bytes, masks are constants.
_SMALL: Final = 1 << 16


def _attention(builder: Builder, node: Node) -> Node | None:
    """Views heads that share keys as rows of one head, and adds masks as finite numbers."""
    bound = bind(node)
    operands = [value_of(builder, bound[name]) for name in ("query", "key", "value")]
    shapes = [each.shape for each in (*operands, Value(builder, node))]
    if any(type(size) is not int for shape in shapes for size in shape) or len(shapes[0]) < 2:
        return None
    query, key, value = map(_of_rank_4, operands)
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


def _of_rank_4(x: Value) -> Value:
    *outer, rows, columns = x.shape
    heads = outer[-1] if outer else 1
    return x.view(math.prod(outer[:-1]), heads, rows, columns)


def _bias(
    builder: Builder, bound: dict[str, Any], rows: int, columns: int, dtype: torch.dtype
) -> tuple[Value | None, Value | None]:
    """Returns the numbers that are added to scores, and 0 for each fully masked row, if there may be any."""
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


REWRITES: Final = (
    Rewrite(_ATTENTION, _attention, note="groups of heads as rows of one head, finite masks"),
    Rewrite(_ATTENTION, RULES[_ATTENTION], note="bmm, softmax, bmm"),
)
