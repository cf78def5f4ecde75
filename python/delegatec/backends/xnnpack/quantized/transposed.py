# SPDX-License-Identifier: Apache-2.0
"""Products with transposed weights that are quantized, as calls of `aten.linear`.

torchao traces layers with int8 weights in groups (`Int8WeightOnlyConfig`) as such products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.weights import is_weight
from delegatec.edge.analysis.quantized import Constant
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram

aten = torch.ops.aten


def linear_of_transposed(program: EdgeProgram) -> bool:
    """Replaces products with transposed quantized weights by linear layers.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder, changed = Builder(program), False
    for node in list(program.graph.nodes):
        found = _operands(node, builder.facts.constant)
        if found is None:
            continue
        layer = builder.at(node).call(aten.linear.default, *found, val=node.meta["val"])
        node.replace_all_uses_with(layer)
        changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed


def _operands(node: Node, constant: Constant) -> tuple[Node, Node, Node | None] | None:
    """Returns input, weight and bias of a product that is a linear layer."""
    if node.target is aten.mm.default:
        x, factor, bias = *bind(node).values(), None
    elif node.target is aten.addmm.default:
        bound: dict[str, Any] = bind(node)
        x, factor, bias = bound["mat1"], bound["mat2"], bound["self"]
        if bound["alpha"] != 1 or bound["beta"] != 1 or shape_of(bias) != shape_of(node)[-1:]:
            return None
    else:
        return None
    if factor.target is not aten.permute.default or list(bind(factor)["dims"]) != [1, 0]:
        return None
    weight = bind(factor)["self"]
    return (x, weight, bias) if is_weight(weight, constant) else None
