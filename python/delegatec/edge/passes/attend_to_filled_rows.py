# SPDX-License-Identifier: Apache-2.0
"""Restricts attention to a cache to the rows that its mask allows."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value, cat, table, value_of
from delegatec.edge.passes.cached_rows import LEAST_ROWS, MOST_HEADS, cache_of, rows_of
from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.passes.filled_rows import FilledRows
from delegatec.edge.passes.filled_scores import weighted_sum
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_Key = tuple[Node, int, torch.dtype]
"""A mask, the number of heads that share keys, and the dtype of scores."""


def attend_to_filled_rows(program: EdgeProgram, is_narrowed: bool = False) -> bool:
    """Replaces attention to a cache with a mask of positions by attention to the first rows of each head.

    A decoder's cache is a buffer [1, heads, length, depth] of which a call reads the rows up to its last
    position. The number of these rows is computed before, and the rows of one head are adjacent, so that no
    copy is needed. Queries that share a head are its queries, and the mask is repeated for them. Calls that
    compute scores and weights themselves are restricted as well, see `filled_scores`.

    Args:
        program: edited in place.
        is_narrowed: whether float32 is computed in float16 later.

    Returns:
        Whether it had such attention.
    """
    if program.is_body or not program.mutated_inputs():
        return False
    buffers = {node for node in program.placeholders() if node.name in program.mutated_inputs()}
    builder = Builder(program)
    rows, masks = FilledRows(builder), dict[_Key, _Repeated]()

    def rule(b: Builder, node: Node) -> Node | None:
        return _attention(builder.at(node), node, buffers, rows, masks, is_narrowed)

    def rule_of_products(b: Builder, node: Node) -> Node | None:
        return weighted_sum(builder.at(node), node, buffers, rows)

    changed = rewrite(
        program, {aten.scaled_dot_product_attention.default: rule, aten.bmm.default: rule_of_products}
    )
    if changed:
        eliminate_common(program)
    return changed


class _Repeated:
    """A mask for the queries of all heads that share keys.

    Attributes:
        shift: addend of scores, float [group * queries, rows].
        alive: 0 for each query that may not attend to any row, else 1, float [1, 1, queries, 1].

    Args:
        b: builder before the attention.
        mask: bool [queries, rows].
        group: number of the heads.
        dtype: of scores.
        computed: the dtype in which they are computed.
    """

    def __init__(
        self, b: Builder, mask: Value, group: int, dtype: torch.dtype, computed: torch.dtype
    ) -> None:
        any_row = value_of(b, b.call(aten.any.dim, mask.node, 1, True))
        self.alive = any_row.to(dtype).view(1, 1, mask.shape[0], 1)
        allowed, masked = (table(b, torch.tensor(each, dtype=dtype)) for each in (0.0, _masked(computed)))
        shift = mask.where(allowed, masked)
        self.shift = (shift if group == 1 else cat([shift] * group, 0)).node


def _masked(dtype: torch.dtype) -> float:
    """Returns the addend of a masked score: the sum is finite, so that no row consists of infinities."""
    lowest = torch.finfo(dtype).min
    # the lowest float32 becomes the lowest float16 where that is the precision, and scores do not change it
    return lowest if dtype == torch.float32 else 0.9 * lowest


def _attention(
    b: Builder,
    node: Node,
    buffers: Collection[Node],
    rows: FilledRows,
    masks: dict[_Key, _Repeated],
    is_narrowed: bool,
) -> Node | None:
    bound = bind(node)
    query, mask = value_of(b, bound["query"]), bound["attn_mask"]
    caches = [cache_of(bound[name], buffers) for name in ("key", "value")]
    if None in caches or mask is None or dtype_of(mask) != torch.bool or query.rank != 4:
        return None
    if bound["is_causal"] or bound["dropout_p"] or not query.dtype.is_floating_point:
        return None
    batch, heads, count, _ = query.shape
    one, shared, length, depth = shape_of(bound["key"])
    if sizes_key([batch, one]) != (1, 1) or not isinstance(heads, int) or heads % shared:
        return None
    if length < LEAST_ROWS or shared > MOST_HEADS or shape_of(bound["value"])[:3] != (1, shared, length):
        return None
    *leading, queries_of_mask = sizes_key(shape_of(mask)[:-1]) or (0,)
    if {*leading, 1} != {1} or sizes_key([count]) != (queries_of_mask,):
        return None
    end = rows.end(mask, length)
    if end is None:
        return None
    group = heads // shared
    key_of_mask = mask, group, query.dtype
    if key_of_mask not in masks:
        computed = torch.float16 if is_narrowed else query.dtype
        masks[key_of_mask] = _Repeated(b, rows.mask(mask, end), group, query.dtype, computed)
    repeated = masks[key_of_mask]
    # once for all heads
    scale = depth**-0.5 if bound["scale"] is None else bound["scale"]
    queries = (query if scale == 1 else query * scale).view(heads, count, depth)
    results = []
    for head in range(shared):
        own = queries.slice(0, head * group, (head + 1) * group).view(group * count, depth)
        key, value = (rows_of(b, bound[name], head, end) for name in ("key", "value"))
        part = b.call(
            *(node.target, own.node, key, value, repeated.shift),
            val=b.empty([group * count, shape_of(value)[-1]], query.dtype),
            scale=1.0,
        )
        results.append(value_of(b, part))
    result = cat(results, 0).view(*shape_of(node))
    return (result * repeated.alive).node
