# SPDX-License-Identifier: Apache-2.0
"""Attention to keys and values that are repeated for several heads."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import ANY, Call, Pattern, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten


def group_heads(program: EdgeProgram) -> bool:
    """Replaces attention to repeated heads by attention of groups of heads (`enable_gqa`)."""
    return rewrite(program, _RULES)


def _group(b: Builder, node: Node, key: Node, value: Node) -> Node | None:
    query, repeated, _, *rest = node.args
    # Shapes of one rank: torch repeats heads only then.
    assert isinstance(repeated, Node)
    if bind(node)["enable_gqa"] or not same_sizes(shape_of(repeated)[-3:-2], shape_of(node)[-3:-2]):
        return None
    if not same_sizes(shape_of(key)[-4:-3], shape_of(value)[-4:-3]):
        return None
    heads = [b.call(aten.squeeze.dims, each, [len(shape_of(node)) - 2]) for each in (key, value)]
    node.args = (query, *heads, *rest)
    node.kwargs = {**node.kwargs, "enable_gqa": True}
    return node


def _repeats(view: Node) -> bool:
    """Whether a view of an expansion has several copies of each head of [*, heads, 1, rows, columns]."""
    (expanded,) = view.all_input_nodes[:1]
    *outer, heads, count, rows, columns = shape_of(expanded) if len(shape_of(expanded)) > 3 else (0,) * 4
    is_source = same_sizes(shape_of(expanded.all_input_nodes[0]), (*outer, heads, 1, rows, columns))
    is_several = not same_sizes((count,), (1,))
    return is_source and is_several and same_sizes(shape_of(view), (*outer, heads * count, rows, columns))


def _repeated(name: str) -> Pattern:
    heads = Call(aten.expand.default, Var(name), ...)
    return Call(aten.view.default, heads, ANY).where(_repeats)


_RULES: Final = fusion(
    Call(aten.scaled_dot_product_attention.default, ANY, _repeated("key"), _repeated("value"), ...), _group
)
