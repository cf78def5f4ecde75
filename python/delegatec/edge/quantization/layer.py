# SPDX-License-Identifier: Apache-2.0
"""Layers with quantized weights: convolutions and linear layers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.quantization.constant import Constant, QuantizedConstant, quantized_constant


@dataclass(frozen=True)
class QuantizedLayer:
    """A convolution or a linear layer whose weight is dequantized in the program.

    Attributes:
        node: the layer.
        weight: its weight.
        axis: the weight's dimension of output channels.
        repeats: how often these channels repeat in the result: the groups of a transposed convolution.
        bias: its values; None if it has none, or computes it.
        constants: the calls that dequantize weight and bias.
    """

    node: Node
    weight: QuantizedConstant
    axis: int
    repeats: int
    bias: Tensor | None
    constants: tuple[Node, ...]

    @cached_property
    def scales(self) -> Tensor:
        """The weight's scales in float32: [channels of the result], or [channels, groups of inputs]."""
        scales = self.weight.channel_scales(self.axis)
        return scales if self.group_size else scales.repeat(self.repeats)

    @property
    def group_size(self) -> int:
        """The inputs with one scale; 0 if a channel of the result has one scale."""
        return 0 if self.weight.is_per_channel(self.axis) else self.weight.block[1]

    @property
    def computes_bias(self) -> bool:
        """Whether it has a bias that is not constant."""
        return self.bias is None and bind(self.node)["bias"] is not None


def quantized_layer(node: Node, constant: Constant) -> QuantizedLayer | None:
    """Returns a layer; None if its weight is not quantized.

    Args:
        node: a convolution or a linear layer, with arguments named as those of ATen's.
        constant: returns the value of a constant node, and None for other nodes.
    """
    bound = bind(node)
    weight, bias = quantized_constant(bound["weight"], constant), bound["bias"]
    if weight is None:
        return None
    dequantized = None if bias is None else quantized_constant(bias, constant)
    values = None if bias is None else constant(bias)
    if dequantized is not None:
        values = dequantized.dequantized()
    constants = [each.call for each in (weight, dequantized) if each is not None]
    is_transposed = bound.get("transposed", "transpose" in str(node.target))
    axis, repeats = (1, bound["groups"]) if is_transposed else (0, 1)
    return QuantizedLayer(node, weight, axis, repeats, values, tuple(constants))
