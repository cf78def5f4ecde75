# SPDX-License-Identifier: Apache-2.0
"""Folding of casts into quantization: values are converted to and from each consumer's dtype directly."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.formulas import cast
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE


def fold_casts(program: EdgeProgram) -> bool:
    """Removes casts of dequantized values, and those before a quantization.

    A float16 program computes sums and means in float32. Between quantized values, the runtime computes them
    with integers, if no casts are in between.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    return rewrite(program, _RULES)


def _dequantize(b: Builder, node: Node, source: Node) -> Node | None:
    if not dtype_of(node).is_floating_point:
        return None
    return b.call(DEQUANTIZE, *source.args, val=node.meta["val"])


def _quantize(_: Builder, node: Node, x: Node, converted: Node) -> Node | None:
    if not (dtype_of(x).is_floating_point and dtype_of(converted).is_floating_point):
        return None
    node.replace_input_with(converted, x)
    return node


_RULES: Final = {
    **fusion(cast(Call(DEQUANTIZE, ...).named("source")), _dequantize),
    **fusion(Call(QUANTIZE, cast(Var("x")).named("converted"), ...), _quantize),
}
