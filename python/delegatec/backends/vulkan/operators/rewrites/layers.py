# SPDX-License-Identifier: Apache-2.0
"""Matrix products, convolutions and gathers in the forms that the runtime has."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules import convolution, convolution_in_parts, linear
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


def _slices(builder: Builder, node: Node) -> list[Node | None] | None:
    """Replaces a split of a value with dynamic sizes by slices: the runtime does not resize split results."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    if not is_dynamic(x.shape):
        return None
    dim = positive(bound["dim"], x.rank)
    start: int = 0
    parts: list[Node | None] = []
    for part in node.meta["val"]:
        parts.append(x.slice(dim, start, start + part.shape[dim]).node)
        start = start + part.shape[dim]
    return parts


def _second_channel(builder: Builder, node: Node) -> Node | None:
    """Computes a second channel of zeros: the runtime takes a filter of one channel for a depthwise one."""
    bound = bind(node)
    weight = builder.facts.constant(bound["weight"])
    if weight is None or weight.dim() != 4 or weight.shape[:2] != (1, 1) or bound["transposed"]:
        return None
    wide = dict(bound)
    for name in ("weight", "bias") if bound["bias"] is not None else ("weight",):
        value = builder.facts.constant(bound[name])
        if value is None:
            return None
        value = value.detach()
        wide[name] = builder.derived(bound[name], torch.cat([value, torch.zeros_like(value)]))
    both = Value(builder, builder.call(aten.convolution.default, *wide.values()))
    return both.slice(1, 0, 1).node


def _index_select(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    x, index = value_of(builder, bound["self"]), value_of(builder, bound["index"])
    if not x.shape:
        return None
    dim = positive(bound["dim"], x.rank)
    ones = [1] * x.rank
    ones[dim] = index.numel
    spread = index.view(*ones).expand(*shape_of(node))
    return builder.call(aten.gather.default, x.node, dim, spread.node, val=node.meta["val"])


def _embedding(builder: Builder, node: Node) -> Node | None:
    """Gathers rows of a non-constant table."""
    bound = bind(node)
    if builder.facts.constant(bound["weight"]) is not None:
        return None
    table, indices = value_of(builder, bound["weight"]), value_of(builder, bound["indices"])
    return table.index_select(0, indices.view(indices.numel)).view(*shape_of(node)).node


REWRITES: Final = (
    linear.LINEAR_OF_ROWS,
    linear.LINEAR_BY_MM,
    linear.ADDMM_BY_MM,
    linear.DYNAMIC_MM_BY_BMM,
    convolution_in_parts.IMAGE_BY_IMAGE,
    convolution_in_parts.OF_PATCHES,
    convolution.OF_PADDED_SEQUENCE,
    Rewrite(aten.split_with_sizes.default, _slices, computes=False),
    convolution_in_parts.WITH_MERGED_GROUPS,
    Rewrite(aten.convolution.default, _second_channel, note="with a second channel of zeros"),
    Rewrite(aten.embedding.default, _embedding),
    Rewrite(aten.index_select.default, _index_select, computes=False),
)
