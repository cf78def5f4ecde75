# SPDX-License-Identifier: Apache-2.0
"""Integers in float32 that are converted to int8 and back."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.vulkan.operators.quantized.conversion import RANGE
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Call, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

_INTEGERS: Final = (1.0, 0)


def cancel_conversions(program: EdgeProgram, facts: Facts) -> bool:
    """Cancels conversions of float32 integers to int8 and back.

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
