# SPDX-License-Identifier: Apache-2.0
"""Quantized values of fewer or more than 8 bits: int8 values between bounds, and floats between bounds."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import FULL_RANGE, scale_of
from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

_LESS: Final = 0.49
"""How many quantization steps a float may be beyond the bounds: it is rounded to them."""


def clamp_quantized_values(program: EdgeProgram) -> bool:
    """Turns bounds of quantized values into bounds of floats, which are limits of their producers.

    int8 values between other bounds than those of the dtype become int8 values of the full range. Floats that
    are only fake-quantized to more than 8 bits stay floats: the runtime has no such quantized values, and
    float32 is more precise.

    Args:
        program: edited in place.

    Returns:
        Whether it changed.
    """
    return rewrite(program, {QUANTIZE: _limit})


def _limit(b: Builder, node: Node) -> Node | None:
    if is_wide(node):
        limited = _limited(b, node)
        for user in list(node.users):
            user.replace_all_uses_with(limited)
        return node
    if not _is_narrow(node):
        return None
    node.replace_input_with(bind(node)["input"], _limited(b, node))
    least, most = FULL_RANGE[bind(node)["dtype"]]
    node.args = (*node.args[:3], least, most, *node.args[5:])
    return node


def is_wide(node: Node) -> bool:
    """Whether a call quantizes to more than 8 bits, or dequantizes the result of such a call."""
    if node.target is DEQUANTIZE:
        node = bind(node)["input"]
    if node.target is not QUANTIZE or bind(node)["dtype"] in FULL_RANGE:
        return False
    return all(user.target is DEQUANTIZE and user.args[1:] == node.args[1:] for user in node.users)


def _is_narrow(node: Node) -> bool:
    bound = bind(node)
    return (
        scale_of(node) is not None and (bound["quant_min"], bound["quant_max"]) != FULL_RANGE[bound["dtype"]]
    )


def _limited(builder: Builder, node: Node) -> Node:
    """Returns the operand of a quantization, clamped to the bounds of the quantized values."""
    bound = bind(node)
    source: Node = bound["input"]
    least, most = ((bound[end] - bound["zero_point"]) * bound["scale"] for end in ("quant_min", "quant_max"))
    found, margin = builder.facts.of(source), _LESS * bound["scale"]
    low = None if found.low >= least - margin else least
    high = None if found.high <= most + margin else most
    if low is None and high is None:
        return source
    clamp = torch.ops.aten.clamp.default
    return builder.call(clamp, source, low, high, val=source.meta["val"])
