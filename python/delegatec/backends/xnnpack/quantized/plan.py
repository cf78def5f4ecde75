# SPDX-License-Identifier: Apache-2.0
"""Which values of a private program the runtime keeps as int8.

In the program, calls compute with floats, between calls that quantize and dequantize. In the blob, a value is
float, or int8 with a scale. The plan chooses: a call whose operands are quantized, and whose result is only
quantized, is one operation from int8 to int8. All others compute with floats, and conversions are emitted
where the two meet.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.fits import fits_choice
from delegatec.backends.xnnpack.quantized.kernels import KERNELS, QuantizedCall
from delegatec.backends.xnnpack.quantized.scales import int8, is_normal_scale, scale_of
from delegatec.backends.xnnpack.quantized.value_sets import (
    CLAMPS,
    MOVES,
    moves_quantized,
    read_scale,
    value_set_of,
)
from delegatec.edge.arguments import bind, dtype_of, operand_nodes
from delegatec.edge.quantization.constant import Constant, quantized_constant
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.quantization.scale import Quantization

aten = torch.ops.aten

Plan = dict[Node, Quantization]
"""Value -> its scale, for each value that is kept quantized."""


def plan(nodes: Sequence[Node], constant: Constant) -> Plan:
    """Chooses the values that are kept quantized.

    Args:
        nodes: the calls of a private program, in order.
        constant: returns the value of a constant node, and None for other nodes.
    """
    wanted = _wanted(nodes)
    chosen: Plan = {}
    for node in nodes:
        for operand in operand_nodes(node):
            scale = _scale_of_input(operand, constant) if operand.op == "placeholder" else None
            if scale is not None:
                chosen[operand] = scale
        scale = _chosen(node, chosen, wanted.get(node), constant)
        if scale is not None:
            chosen[node] = scale
    return chosen


def _scale_of_input(node: Node, constant: Constant) -> Quantization | None:
    is_quantized = dtype_of(node) in (torch.int8, torch.uint8) and constant(node) is None
    return read_scale(node) if is_quantized else None


def _wanted(nodes: Sequence[Node]) -> Plan:
    """Returns the one scale in which all users of a value quantize it, possibly after calls that keep it."""
    wanted: Plan = {}
    for node in reversed(nodes):
        found = set()
        for user in node.users:
            is_transparent = user.target in MOVES or user.target in CLAMPS or user.target is operator.getitem
            found.add(
                scale_of(user) if user.target is QUANTIZE else wanted.get(user) if is_transparent else None
            )
        scale = found.pop() if len(found) == 1 else None
        if scale is not None:
            wanted[node] = scale
    return wanted


def _chosen(node: Node, chosen: Plan, wanted: Quantization | None, constant: Constant) -> Quantization | None:
    if node.target is QUANTIZE:
        return scale_of(node)
    if node.target is DEQUANTIZE:
        return scale_of(node) if constant(bind(node)["input"]) is None else None
    if node.target is operator.getitem:
        return chosen.get(node.all_input_nodes[0])
    kernel = KERNELS.get(node.target)
    operands = operand_nodes(node) if kernel is None else [bind(node)[name] for name in kernel.operands]
    scales = [operand_scale(each, chosen, constant) for each in operands]
    found = [scale for scale in scales if scale is not None]
    if len(found) < len(scales) or not any(each in chosen for each in operands):
        return None
    if kernel is None:
        return _moved(node, found, chosen, wanted)
    is_computed = wanted is not None and kernel.computes(QuantizedCall(node, found, wanted, constant))
    return wanted if is_computed else None


def _moved(
    node: Node, scales: Sequence[Quantization], chosen: Plan, wanted: Quantization | None
) -> Quantization | None:
    """Returns the scale of a result that consists of its operands' elements."""
    if not moves_quantized(node) and node.target not in CLAMPS:
        return None
    same = value_set_of(node, chosen)
    if same is not None and wanted in (None, same):
        return same
    if node.target in CLAMPS:
        return wanted if wanted is not None and fits_choice(scales, wanted) else None
    # the operands are converted first
    is_joined = node.target is aten.cat.default and wanted is not None and fits_choice(scales, wanted)
    return wanted if is_joined else same


def operand_scale(node: Node | float, chosen: Plan, constant: Constant) -> Quantization | None:
    """Returns the scale of an operand that is kept quantized, or of a constant that can be."""
    if not isinstance(node, Node):
        return scale_of_scalar(float(node))
    if node in chosen:
        return chosen[node]
    value = constant(node)
    if value is not None:
        return scale_of_scalar(float(value)) if value.numel() == 1 else None
    found = quantized_constant(node, constant)
    if found is None or found.dtype != torch.int8:
        return None
    if found.scales.numel() != 1 and len(set(found.scales.flatten().tolist())) != 1:
        return None
    zeros = {0} if found.zero_points is None else {int(zero) for zero in found.zero_points.flatten().tolist()}
    only = float(found.scales.flatten()[0])
    return int8(only, zeros.pop()) if len(zeros) == 1 and is_normal_scale(only) else None


def scale_of_scalar(scalar: float) -> Quantization | None:
    """Returns a scale that represents a scalar exactly."""
    size = abs(scalar)
    return int8(size / 64, 0) if 2.0**-50 < size < 2.0**50 else None
