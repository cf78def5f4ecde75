# SPDX-License-Identifier: Apache-2.0
"""Restricts attention to a cache to the rows that its mask allows."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value, cat, value_of
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.filled_rows import FilledRows, first_rows
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten

_LEAST: Final = 256
"""The shortest cache of which parts are read: the calls for a part cost more than the rows of a short one."""
_MOST_HEADS: Final = 64


def attend_to_filled_rows(program: EdgeProgram) -> bool:
    """Replaces attention to a cache with a mask of positions by attention to the first rows of each head.

    A decoder's cache is a buffer [1, heads, length, depth] of which a call reads the rows up to its last
    position. The number of these rows is computed before, and the rows of one head are adjacent, so that no
    copy is needed. Queries that share a head are its queries, and the mask is repeated for them.

    Args:
        program: edited in place.

    Returns:
        Whether it had such attention.
    """
    if program.is_body or not program.mutated_inputs():
        return False
    buffers = {node for node in program.placeholders() if node.name in program.mutated_inputs()}
    builder = Builder(program)
    rows, shifts = FilledRows(builder), dict[Node, _Repeated]()

    def rule(b: Builder, node: Node) -> Node | None:
        return _attention(builder.at(node), node, buffers, rows, shifts)

    changed = rewrite(program, {aten.scaled_dot_product_attention.default: rule})
    if changed:
        eliminate_common(program)
    return changed


class _Repeated:
    """A mask for the queries of all heads that share keys.

    Attributes:
        shift: addend of scores, float [group * queries, rows]: the lowest number if they are masked.
        alive: 0 for each query that may not attend to any row, else 1, float [1, 1, queries, 1]; None if all
            may.
    """

    def __init__(self, b: Builder, mask: Value, group: int, dtype: torch.dtype, *, is_alive: bool) -> None:
        zero, lowest = (b.constant(torch.tensor(each, dtype=dtype)) for each in (0.0, torch.finfo(dtype).min))
        shift = mask.where(value_of(b, zero), value_of(b, lowest))
        self.shift = shift if group == 1 else cat([shift] * group, 0)
        self.alive = None
        if not is_alive:
            node = b.call(aten.any.dim, mask.node, 1, True)
            self.alive = value_of(b, node).to(dtype).view(1, 1, mask.shape[0], 1)


def _attention(
    b: Builder, node: Node, buffers: Collection[Node], rows: FilledRows, shifts: dict[Node, _Repeated]
) -> Node | None:
    bound = bind(node)
    query, mask = value_of(b, bound["query"]), bound["attn_mask"]
    caches = [_cache(bound[name], buffers) for name in ("key", "value")]
    if None in caches or mask is None or dtype_of(mask) != torch.bool or query.rank != 4:
        return None
    if bound["is_causal"] or bound["dropout_p"] or not query.dtype.is_floating_point:
        return None
    batch, heads, count, depth = query.shape
    one, shared, length, _ = shape_of(bound["key"])
    if (batch, one) != (1, 1) or not isinstance(heads, int) or length < _LEAST or shared > _MOST_HEADS:
        return None
    is_of_queries = (len(shape_of(mask)) >= 2 and shape_of(mask)[-2:-1] != (1,)) or _is_one(count)
    if shape_of(bound["value"])[:3] != (1, shared, length) or heads % shared or not is_of_queries:
        return None
    if math.prod(shape_of(mask)[:-2]) != 1:
        return None
    end = rows.end(mask, length)
    if end is None:
        return None
    group = heads // shared
    if mask not in shifts:
        shifts[mask] = _Repeated(b, rows.mask(mask, end), group, query.dtype, is_alive=False)
    repeated = shifts[mask]
    # once for all heads
    scale = depth**-0.5 if bound["scale"] is None else bound["scale"]
    queries = (query if scale == 1 else query * scale).view(heads, count, depth)
    results = []
    for head in range(shared):
        own = queries.slice(0, head * group, (head + 1) * group).view(group * count, depth)
        key, value = (_rows_of(b, bound[name], head, end) for name in ("key", "value"))
        part = b.call(
            *(node.target, own.node, key, value, repeated.shift.node),
            val=b.empty([group * count, shape_of(value)[-1]], query.dtype),
            scale=1.0,
        )
        results.append(value_of(b, part))
    result = cat(results, 0).view(*shape_of(node))
    return (result if repeated.alive is None else result * repeated.alive).node


def _is_one(size: object) -> bool:
    return isinstance(size, int) and size == 1


def _cache(node: Node, buffers: Collection[Node]) -> Node | None:
    """Returns the buffer whose value a call has, maybe in another dtype; None for another value."""
    if node.target is aten._to_copy.default:
        node = bind(node)["self"]
    while node.target is aten.index_put.default and not bind(node)["accumulate"]:
        node = bind(node)["self"]
    is_static = all(isinstance(size, int) for size in shape_of(node))
    return node if node in buffers and len(shape_of(node)) == 4 and is_static else None


def _rows_of(b: Builder, node: Node, head: int, end: Node) -> Node:
    """Returns the first rows of one head of a cache, [end, depth]."""
    dtype = dtype_of(node)
    source = bind(node)["self"] if node.target is aten._to_copy.default else node
    _, _, length, depth = shape_of(source)
    all_heads = b.call(aten.view.default, source, [*shape_of(source)[1:]])
    one = b.call(aten.select.int, all_heads, 0, head, val=b.empty([length, depth], dtype_of(source)))
    part = value_of(b, first_rows(b, one, 0, end))
    return part.to(dtype).node
