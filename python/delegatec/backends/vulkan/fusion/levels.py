# SPDX-License-Identifier: Apache-2.0
"""Conversions of integers in float32 to int8 and back, between calls that compute with them."""

from __future__ import annotations

from delegatec.backends.vulkan.operators.quantized.conversion import DEQUANTIZE, QUANTIZE, RANGE
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.program import EdgeProgram

_INTEGERS = (1.0, 0)


def cancel_conversions(program: EdgeProgram, facts: Facts) -> bool:
    """Replaces integers that are converted to int8 and back.

    Args:
        program: a private program, edited in place.
        facts: analysis results for its values.

    Returns:
        Whether it changed.
    """
    changed = False
    for node in program.graph.find_nodes(op="call_function", target=DEQUANTIZE):
        inner = bind(node)["input"]
        if inner.target is not QUANTIZE:
            continue
        parameters = [(bind(each)["scale"], bind(each)["zero_point"]) for each in (node, inner)]
        source = bind(inner)["input"]
        values = facts.of(source)
        fits = values.is_integral and values.low >= RANGE[0] and values.high <= RANGE[1]
        if fits and parameters == [_INTEGERS, _INTEGERS]:
            node.replace_all_uses_with(source)
            changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed
