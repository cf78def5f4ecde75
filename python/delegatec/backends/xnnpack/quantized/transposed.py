# SPDX-License-Identifier: Apache-2.0
"""Products with transposed quantized weights, as calls of `aten.linear`.

torchao traces layers with int8 weights in groups (`Int8WeightOnlyConfig`) as such products.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.weights import is_weight
from delegatec.edge.arguments import shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten


def linear_of_transposed(program: EdgeProgram) -> bool:
    """Replaces products with transposed quantized weights by linear layers.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    return rewrite(program, _RULES)


def _linear(b: Builder, node: Node, x: Node, weight: Node, bias: Node | None = None) -> Node | None:
    if not is_weight(weight, b.facts.constant) or (
        bias and not same_sizes(shape_of(bias), shape_of(node)[-1:])
    ):
        return None
    return b.call(aten.linear.default, x, weight, bias, val=node.meta["val"])


_X, _WEIGHT = Var("x"), Call(aten.permute.default, Var("weight"), [1, 0])
_RULES: Final = fusion(
    Call(aten.mm.default, _X, _WEIGHT) | Call(aten.addmm.default, Var("bias"), _X, _WEIGHT), _linear
)
