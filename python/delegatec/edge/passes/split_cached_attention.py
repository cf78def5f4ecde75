# SPDX-License-Identifier: Apache-2.0
"""Computes attention to a cache with new rows from the old cache and the new rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rules.attention import any_in_row, lowest
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten


@dataclass(frozen=True)
class _Cache:
    """A cache with new rows.

    Attributes:
        old: the cache before, [batch, heads, length, depth].
        positions: of the new rows, of rank 1.
        new: these rows, [batch, heads, rows, depth], maybe without leading sizes of one.
    """

    old: Node
    positions: Node
    new: Node


def split_cached_attention(program: EdgeProgram) -> bool:
    """Replaces attention to caches with new rows by attention to the old caches and to the rows.

    The scores of a row that is written are those of the new row, and its weight applies to the new value. So
    no attention depends on the writes: a delegate that cannot write at positions runs all layers, and the
    writes come after it.

    Args:
        program: edited in place.

    Returns:
        Whether it had such attention.
    """
    changed = rewrite(program, {aten.scaled_dot_product_attention.default: _split})
    if changed:
        eliminate_common(program)
    return changed


def _cache(node: Node) -> _Cache | None:
    """Returns the parts of a cache with new rows; None for another node."""
    if node.target is not aten.index_put.default:
        return None
    bound = bind(node)
    *others, positions = bound["indices"]
    is_second = len(bound["indices"]) == 3 and not any(each is not None for each in others)
    if bound["accumulate"] or not is_second or len(shape_of(node)) != 4 or not isinstance(positions, Node):
        return None
    batch, heads, _, depth = shape_of(node)
    if dtype_of(positions) == torch.bool or len(shape_of(positions)) != 1:
        return None
    rows = (batch, heads, shape_of(positions)[0], depth)
    is_static = all(isinstance(size, int) for size in (*rows, *shape_of(node)))
    # the rows may lack leading sizes of one
    if not is_static or math.prod(shape_of(bound["values"])) != math.prod(rows):
        return None
    return _Cache(bound["self"], positions, bound["values"])


def _split(b: Builder, node: Node) -> Node | None:
    bound = bind(node)
    keys, values, query = _cache(bound["key"]), _cache(bound["value"]), value_of(b, bound["query"])
    if keys is None or values is None or keys.positions is not values.positions:
        return None
    if bound["is_causal"] or bound["dropout_p"] or query.rank != 4 or not query.dtype.is_floating_point:
        return None
    batch, heads, rows, depth = query.shape
    _, groups, length, _ = shape_of(keys.old)
    if not isinstance(rows, int) or not same_sizes(shape_of(keys.old)[:3], shape_of(values.old)[:3]):
        return None
    count, width = shape_of(keys.positions)[0], shape_of(values.old)[3]
    joined = batch * groups, heads // groups * rows
    scale = depth**-0.5 if bound["scale"] is None else bound["scale"]
    flat = (query * scale).view(*joined, depth)
    at = _one_hot(b, keys.positions, length, query.dtype)
    free = -at.sum([0], True) + 1.0
    scores = flat @ _rows(b, keys.old, length, depth).permute(0, 2, 1)
    fresh = flat @ _rows(b, keys.new, count, depth).permute(0, 2, 1)
    scores = scores * free + _times(fresh, at)
    masked, alive = _masked(b, scores.view(batch, heads, rows, length), bound["attn_mask"])
    weights = masked.softmax(3).view(*joined, length)
    old = (weights * free) @ _rows(b, values.old, length, width)
    new = _times(weights, at.permute(1, 0)) @ _rows(b, values.new, count, width)
    result = (old + new).view(*shape_of(node))
    return (result if alive is None else result * alive).node


def _rows(b: Builder, node: Node, count: int, depth: int) -> Value:
    """Returns rows of caches as [batch * heads, rows, depth]."""
    rows = value_of(b, node)
    return rows.view(rows.numel // (count * depth), count, depth)


def _times(x: Value, matrix: Value) -> Value:
    """Returns the product of each matrix of a batch with one matrix."""
    batch, rows, inner = x.shape
    return (x.view(batch * rows, inner) @ matrix).view(batch, rows, matrix.shape[1])


def _one_hot(b: Builder, positions: Node, length: int, dtype: torch.dtype) -> Value:
    """Returns a row for each position, with a one there; a negative position counts from the end."""
    index = value_of(b, positions)
    index = index.view(*index.shape, 1)
    columns = torch.arange(length, dtype=index.dtype)
    is_there = index.eq(table(b, columns)) | index.eq(table(b, columns - length))
    return is_there.to(dtype)


def _masked(b: Builder, scores: Value, mask: Node | None) -> tuple[Value, Value | None]:
    """Returns masked scores, and 0 for each row that is masked as a whole, else 1; see `rules.attention`."""
    if mask is None:
        return scores, None
    allowed: Any = mask
    if dtype_of(mask) != torch.bool:
        scores = scores + value_of(b, mask)
        if b.facts.of(mask).low > -math.inf:
            return scores, None
        allowed = value_of(b, mask).ne(-math.inf).node
    least = value_of(b, lowest(b, scores.dtype))
    return value_of(b, allowed).where(scores, least), value_of(b, any_in_row(b, allowed, scores.dtype))
