# SPDX-License-Identifier: Apache-2.0
"""Layers between quantized values, by the runtime's operators from int8 to int8.

A layer is a convolution, a linear layer, a sum or a clamp whose operands are dequantized, and whose result,
maybe clamped, is quantized. Convolutions with quantized weights have no other operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.vulkan.operators.clamps import CLAMPS, bounds_of
from delegatec.backends.vulkan.operators.quantized.conversion import RANGE, is_shifted
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize.rules.convolution_in_parts import MOST_IMAGES, MOST_MERGED
from delegatec.edge.quantization.constant import Constant
from delegatec.edge.quantization.layer import QuantizedLayer, quantized_layer
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.symbols import same_sizes

aten = torch.ops.aten

_TEXEL: Final = 4
_OPERANDS: Final = ("self", "other", "input")


@dataclass(frozen=True)
class Fused:
    """A layer and the calls between it and the quantized values.

    Attributes:
        node: the layer.
        inputs: the calls that dequantize its operands.
        clamp: the clamp of its result, if any.
        output: the call that quantizes its result.
        product: its quantized weight and bias; None for a sum or a clamp.
    """

    node: Node
    inputs: tuple[Node, ...]
    clamp: Node | None
    output: Node
    product: QuantizedLayer | None = None

    def members(self) -> Iterator[Node]:
        """Yields all calls."""
        yield from (*self.inputs, self.node, self.output)
        if self.product is not None:
            yield from self.product.constants
        if self.clamp is not None:
            yield self.clamp


def fused_of(node: Node, constant: Constant) -> Fused | None:
    """Returns the layer that a node computes, if its operands and result are quantized.

    Args:
        node: a convolution, a linear layer, a sum or a clamp.
        constant: returns the value of a constant node, and None for other nodes.
    """
    bound = bind(node)
    ends = _ends(node)
    inputs = tuple(bound[name] for name in _OPERANDS if name in bound)
    if ends is None or not all(isinstance(each, Node) and _is_int8(each, DEQUANTIZE) for each in inputs):
        return None
    if node.target is aten.add.Tensor:
        same = all(same_sizes(shape_of(each), shape_of(node)) for each in inputs) and bound["alpha"] == 1
        return Fused(node, inputs, *ends) if same else None
    if node.target in CLAMPS:
        return Fused(node, inputs, node, ends[1]) if ends[0] is None else None
    product = quantized_layer(node, constant)
    if product is None or product.weight.zero_points is not None or product.weight.dtype != torch.int8:
        return None
    return None if product.computes_bias else Fused(node, inputs, *ends, product)


def _ends(node: Node) -> tuple[Node | None, Node] | None:
    """Returns the clamp and the quantization that alone use a value."""
    clamp: Node | None = None
    for _ in range(2):
        users = list(node.users)
        if len(users) != 1:
            return None
        if _is_int8(users[0], QUANTIZE):
            return clamp, users[0]
        if clamp is not None or users[0].target not in CLAMPS:
            return None
        node = clamp = users[0]
    return None


def _is_int8(node: Node, target: Any) -> bool:
    """Whether a node quantizes or dequantizes int8 of the full range."""
    if node.target is not target or len(shape_of(node)) > 4:
        return False
    bound = bind(node)
    source = bound["input"] if target is DEQUANTIZE else node
    is_full = (bound["quant_min"], bound["quant_max"]) == RANGE or target is DEQUANTIZE
    is_quantized = (bound["dtype"] == torch.int8 and is_full) or (
        source.target is QUANTIZE and is_shifted(source)
    )
    return is_quantized and 2.0**-120 < bound["scale"] < 2.0**120


def activation_of(layer: Fused) -> tuple[str, tuple[int, int]]:
    """Returns the activation of the runtime's operator, and bounds of its quantized result.

    Quantization is monotonic: a clamp before it limits the quantized values. Most clamps are those of the
    range of int8.
    """
    if layer.clamp is None:
        return "none", RANGE
    bound = bind(layer.output)
    scale, zero = bound["scale"], bound["zero_point"]
    low, high = bounds_of(layer.clamp)
    limits = [
        end if each is None else max(RANGE[0], min(RANGE[1], round(each / scale) + zero))
        for each, end in zip((low, high), RANGE, strict=True)
    ]
    if low == 0 and limits[0] > RANGE[0]:
        return "relu", (RANGE[0], limits[1])
    return "none", (limits[0], limits[1])


def unsupported(layer: Fused) -> str | None:
    """Returns why the runtime has no operator for a layer."""
    if layer.node.target is not aten.convolution.default:
        return None
    bound = bind(layer.node)
    assert layer.product is not None
    weight, groups = layer.product.weight, bound["groups"]
    shape = tuple(weight.values.shape)
    if len(shape_of(layer.node)) != 4:
        return "over a sequence"
    if shape_of(layer.node)[0] > MOST_IMAGES:
        return f"and a batch of {shape_of(layer.node)[0]} images"
    if not weight.is_per_channel(layer.product.axis):
        return "and several scales per output channel"
    if bound["transposed"] and (set(bound["dilation"]) != {1} or groups > 1):
        return "that is transposed, with dilation or groups"
    if groups > 1 and not is_depthwise(shape, groups) and not _has_blocks(shape, groups):
        return f"in {groups} groups" if math.prod(shape) * groups > MOST_MERGED else None
    return None


def is_depthwise(shape: tuple[int, ...], groups: int) -> bool:
    """Whether a convolution with a weight of a shape has one channel per group."""
    return shape[0] == groups and shape[1] == 1


def _has_blocks(shape: tuple[int, ...], groups: int) -> bool:
    return shape[1] % _TEXEL == 0 and shape[0] // groups % _TEXEL == 0
