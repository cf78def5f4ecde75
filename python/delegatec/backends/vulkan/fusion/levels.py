# SPDX-License-Identifier: Apache-2.0
"""Levels of activations: uint8 as int8, and integers in float32 that are converted to int8 and back."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.operators.quantized.conversion import DEQUANTIZE, QUANTIZE, RANGE, is_shifted
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.program import EdgeProgram

_INTEGERS: Final = (1.0, 0)
_SHIFT: Final = 128
_POSITIONAL: Final = ("input", "scale", "zero_point", "quant_min", "quant_max", "dtype")


def sign_levels(program: EdgeProgram) -> bool:
    """Replaces uint8 by int8: levels and zero points are less by 128.

    Returns:
        Whether the program changed.
    """
    builder = Builder(program)
    found = [
        node for node in program.graph.find_nodes(op="call_function", target=QUANTIZE) if is_shifted(node)
    ]
    for node in found:
        for each in (node, *node.users):
            bound = bind(each) | {"quant_min": RANGE[0], "quant_max": RANGE[1], "dtype": torch.int8}
            bound["zero_point"] -= _SHIFT
            each.args = tuple(bound[name] for name in _POSITIONAL)
        node.meta["val"] = builder.empty(shape_of(node), torch.int8)
    return bool(found)


def cancel_conversions(program: EdgeProgram, facts: Facts) -> bool:
    """Replaces integers that are converted to int8 and back.

    Args:
        program: a private program, edited in place.
        facts: analysis results for its values.

    Returns:
        Whether it changed.
    """

    def cancel(_: Builder, node: Node, x: Node) -> Node | None:
        values = facts.of(x)
        fits = values.is_integral and values.low >= RANGE[0] and values.high <= RANGE[1]
        return x if fits else None

    quantized = Call(QUANTIZE, Var("x"), *_INTEGERS, ...)
    return rewrite(program, fusion(Call(DEQUANTIZE, quantized, *_INTEGERS, ...), cancel))
