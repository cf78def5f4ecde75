# SPDX-License-Identifier: Apache-2.0
"""Attention to keys and values that are repeated for several heads."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def group_heads(program: EdgeProgram) -> bool:
    """Replaces attention to repeated heads by attention of groups of heads (`enable_gqa`)."""
    changed = False
    for node in program.graph.nodes:
        if node.target is not aten.scaled_dot_product_attention.default:
            continue
        bound = bind(node)
        repeated = [bound["key"], bound["value"]]
        sources = [_unrepeated(each) for each in repeated]
        # Shapes of one rank: torch repeats heads only then.
        if None in sources or bound["enable_gqa"] or shape_of(repeated[0])[-3] != shape_of(node)[-3]:
            continue
        if len({shape_of(each)[-4] for each in sources if each is not None}) > 1:
            continue
        builder = Builder(program).at(node)
        query, _, _, *rest = node.args
        rank = len(shape_of(node))
        heads = [builder.call(aten.squeeze.dims, each, [rank - 2]) for each in sources]
        node.args = (query, *heads, *rest)
        node.kwargs = {**node.kwargs, "enable_gqa": True}
        changed = True
    return changed


def _unrepeated(x: Node) -> Node | None:
    """Returns the heads of which `x` has several copies each, as [*, heads, 1, rows, columns]."""
    if x.target is not aten.view.default:
        return None
    expanded = x.args[0]
    if not isinstance(expanded, Node) or expanded.target is not aten.expand.default:
        return None
    source = expanded.args[0]
    assert isinstance(source, Node)
    *outer, heads, count, rows, columns = shape_of(expanded) if len(shape_of(expanded)) > 3 else (0,) * 4
    if shape_of(source) != (*outer, heads, 1, rows, columns) or count == 1:
        return None
    return source if shape_of(x) == (*outer, heads * count, rows, columns) else None
