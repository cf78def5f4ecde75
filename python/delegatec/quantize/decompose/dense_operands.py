# SPDX-License-Identifier: Apache-2.0
"""Quantization of views with dynamic sizes."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from delegatec.edge.quantization.operators import QUANTIZE

aten = torch.ops.aten


def copy_views_before_quantization(graph: GraphModule) -> None:
    """Copies each view that is quantized, so that its strides follow from its shape.

    torch derives the strides of a quantized value from those of the operand: it compares dynamic strides, and
    refuses ranges for which the order of the dimensions may differ. A program has no strides after it is
    lowered, and no such copies.

    Args:
        graph: edited in place.
    """
    for node in graph.graph.find_nodes(op="call_function", target=QUANTIZE):
        view = node.args[0]
        if isinstance(view, Node) and _is_view(view):
            with graph.graph.inserting_before(node):
                copy = graph.graph.call_function(
                    aten.clone.default, (view,), {"memory_format": torch.contiguous_format}
                )
            copy.meta.update(view.meta)
            node.update_arg(0, copy)
    graph.recompile()


def _is_view(node: Node) -> bool:
    if not isinstance(node.target, OpOverload):
        return False
    return any(each.alias_info is not None for each in node.target._schema.returns)
