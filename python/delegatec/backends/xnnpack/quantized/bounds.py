# SPDX-License-Identifier: Apache-2.0
"""Levels of fewer or more than 8 bits: int8 levels between bounds, and numbers between bounds."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import WHOLE, scale_of
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

_LESS: Final = 0.49
"""How many levels beyond the bounds a number may be: it is rounded to them."""


def limit_levels(program: EdgeProgram) -> bool:
    """Makes bounds of levels those of numbers, which are limits of the operations that compute them.

    int8 levels between other bounds than those of the dtype become levels of the full range. Numbers that are
    only rounded to levels of more than 8 bits stay numbers: the runtime has no such levels, and float32 is
    more precise.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    builder = Builder(program)
    facts, changed = builder.facts, False
    for node in program.graph.find_nodes(op="call_function", target=QUANTIZE):
        if is_wide(node):
            limited = _limited(builder, node, facts)
            for user in list(node.users):
                user.replace_all_uses_with(limited)
        elif _is_narrow(node):
            node.replace_input_with(bind(node)["input"], _limited(builder, node, facts))
            least, most = WHOLE[bind(node)["dtype"]]
            node.args = (*node.args[:3], least, most, *node.args[5:])
        else:
            continue
        changed = True
    if changed:
        program.graph.eliminate_dead_code()
    return changed


def is_wide(node: Node) -> bool:
    """Whether a call rounds to levels of more than 8 bits, or dequantizes the result of such a call."""
    if node.target is DEQUANTIZE:
        node = bind(node)["input"]
    if node.target is not QUANTIZE or bind(node)["dtype"] in WHOLE:
        return False
    return all(user.target is DEQUANTIZE and user.args[1:] == node.args[1:] for user in node.users)


def _is_narrow(node: Node) -> bool:
    bound = bind(node)
    return scale_of(node) is not None and (bound["quant_min"], bound["quant_max"]) != WHOLE[bound["dtype"]]


def _limited(builder: Builder, node: Node, facts: Facts) -> Node:
    """Returns the numbers that a call quantizes, between the bounds of its levels."""
    bound = bind(node)
    source: Node = bound["input"]
    least, most = ((bound[end] - bound["zero_point"]) * bound["scale"] for end in ("quant_min", "quant_max"))
    found, margin = facts.of(source), _LESS * bound["scale"]
    low = None if found.low >= least - margin else least
    high = None if found.high <= most + margin else most
    if low is None and high is None:
        return source
    clamp = torch.ops.aten.clamp.default
    return builder.at(node).call(clamp, source, low, high, val=source.meta["val"])
