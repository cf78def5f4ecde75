# SPDX-License-Identifier: Apache-2.0
"""Quantization outside of integer arithmetic, such as of the inputs of a program, in floating point."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.edge.arguments import dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.quantization.operators import DEQUANTIZE_BLOCKS, quantized
from delegatec.edge.quantization.scale import Quantization, quantization_of

_UNIT: Final = [1 << 30], [30]


def _quantize(builder: Builder, node: Node) -> Node | None:
    to = quantization_of(node, builder.facts.constant, signed=True)
    if to is None:
        return None
    x = value_of(builder, node.all_input_nodes[0], torch.float32)
    # TOSA has no rounding to integers; halves are rounded up here
    quantized_values = (x * _scales(x, to, inverse=True) + (to.zero_point + 0.5)).floor()
    found = quantized_values.clamp(float(to.low), float(to.high)).to(to.dtype)
    if dtype_of(node) != torch.uint8:
        return found.node
    shape = builder.empty(found.shape, torch.uint8)
    args = (*_UNIT, 0, 128, -1, False, "single", torch.uint8, False, True)
    return builder.call(TOSA.rescale.default, found.node, *args, val=shape)


def _dequantize(builder: Builder, node: Node) -> Node | None:
    to = quantization_of(node, builder.facts.constant, signed=True)
    if to is None:
        return None
    x = Value(builder, node.all_input_nodes[0])
    if x.dtype == torch.uint8:
        signed = builder.empty(x.shape, torch.int8)
        args = (*_UNIT, 128, 0, -1, False, "single", torch.int8, True)
        x = Value(builder, builder.call(TOSA.rescale.default, x.node, *args, val=signed))
    quantized_values = x.to(torch.float32)
    if to.zero_point:
        quantized_values = quantized_values - float(to.zero_point)
    return (quantized_values * _scales(quantized_values, to, inverse=False)).to(dtype_of(node)).node


def _scales(x: Value, to: Quantization, inverse: bool) -> Value | float:
    scales = torch.tensor(to.scales, dtype=torch.float32)
    if inverse:
        scales = scales.reciprocal()
    if to.axis is None:
        return float(scales[0])
    return table(x.builder, scales.view([-1 if dim == to.axis else 1 for dim in range(x.rank)]))


_NOTE: Final = "in floating point; between quantized values, it becomes integer arithmetic"

REWRITES: Final = tuple(
    Rewrite(target, rule, note=_NOTE, preserved=True)
    for target, rule in (
        (quantized.quantize_per_tensor.default, _quantize),
        (quantized.quantize_per_channel.default, _quantize),
        (quantized.dequantize_per_tensor.default, _dequantize),
        (DEQUANTIZE_BLOCKS, _dequantize),
    )
)
