# SPDX-License-Identifier: Apache-2.0
"""The number of operations of a call, to bound the time that an export spends on calls.

Counted from shapes, not measured: recorded samples must not depend on the machine.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

aten = torch.ops.aten

_PRODUCTS = frozenset(
    {aten.linear, aten.matmul, aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.mv, aten.dot}
)
_CONVOLUTIONS = frozenset({aten.conv1d, aten.conv2d, aten.conv3d, aten.convolution})
_TRANSPOSED = frozenset({aten.conv_transpose1d, aten.conv_transpose2d, aten.conv_transpose3d})

_RECURRENT = frozenset({aten.gru, aten.lstm, aten.rnn_relu, aten.rnn_tanh})


def operations(program: ExportedProgram) -> int:
    """Returns the additions and multiplications of one call with the example inputs, roughly."""
    return sum(_operations(node) for node in program.graph.nodes if node.op == "call_function")


def _operations(node: Node) -> int:
    value = node.meta.get("val")
    results = value if isinstance(value, (tuple, list)) else [value]
    elements = sum(math.prod(_sizes(each)) for each in results if isinstance(each, torch.Tensor))
    packet = getattr(node.target, "overloadpacket", None)
    operands = [_sizes(each.meta["val"]) for each in node.all_input_nodes if _is_tensor(each)]
    if packet in _PRODUCTS and operands:
        is_sum = packet in (aten.addmm, aten.baddbmm) and len(operands) > 1
        return 2 * elements * operands[1 if is_sum else 0][-1]
    if packet in _CONVOLUTIONS and len(operands) > 1:
        return 2 * elements * math.prod(operands[1][1:])
    if packet in _TRANSPOSED and len(operands) > 1:
        return 2 * math.prod(operands[0]) * math.prod(operands[1][1:])
    if packet is aten.scaled_dot_product_attention and len(operands) > 2:
        query, keys, values = operands[:3]
        return 2 * math.prod(query[:-1]) * keys[-2] * (query[-1] + values[-1])
    if packet in _RECURRENT and operands:
        first, *others = operands
        return 2 * math.prod(first[:-1]) * sum(math.prod(each) for each in others if len(each) == 2)
    return elements


def _is_tensor(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _sizes(value: Any) -> list[int]:
    return [
        size if isinstance(size, int) else (1 if size.node.hint is None else int(size.node.hint))
        for size in value.shape
    ]
