# SPDX-License-Identifier: Apache-2.0
"""Comparisons of quantized values with numbers."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import GraphModule, Node

from delegatec.edge.quantization.operators import DEQUANTIZE
from delegatec.quantize.boundary import call_quantization
from delegatec.quantize.graph.bodies import all_nodes

_COMPARISONS: Final = frozenset(
    getattr(torch.ops.aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge")
)


def round_compared(model: GraphModule) -> None:
    """Replaces numbers by the quantized values that stand for them, in place.

    A mask of zeros and ones may be quantized to 0 and 0.9999, which equals no 1. Signs are quantized to
    -1.0034 and 0.9956, which is more than half a step from 1. Numbers further outside of the range stay: a
    value at its end may be nearer to the other values than to the number.
    """
    for node, _ in all_nodes(model):
        if node.target not in _COMPARISONS:
            continue
        operand, number = node.args
        if isinstance(operand, Node) and operand.target is DEQUANTIZE and isinstance(number, int | float):
            node.update_arg(1, _nearest(operand, number))


def _nearest(dequantized: Node, number: float) -> float:
    to = call_quantization(dequantized)
    if number == 0 or not math.isfinite(number) or not to.low - 1 < to.exactly(number) < to.high + 1:
        return number
    # as eager mode and the kernels compute it, in float32
    level = torch.tensor(min(max(round(to.exactly(number)), to.low), to.high), dtype=to.dtype)
    return float(DEQUANTIZE(level, *dequantized.args[1:]))
