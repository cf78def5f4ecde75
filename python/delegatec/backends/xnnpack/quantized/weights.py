# SPDX-License-Identifier: Apache-2.0
"""Weights of layers that are dequantized constants, and biases as the runtime reads them."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import are_normal_scales
from delegatec.edge.quantization.constant import Constant, QuantizedConstant, quantized_constant
from delegatec.edge.quantization.layer import QuantizedLayer, quantized_layer
from delegatec.edge.quantization.operators import DEQUANTIZE_CONSTANTS

_GROUP: Final = 32
"""Group sizes of the runtime's kernels are multiples of this number of inputs."""

CALLS: Final = frozenset(DEQUANTIZE_CONSTANTS)
"""Calls that dequantize weights."""


def is_weight(node: Node, constant: Constant) -> bool:
    """Whether a call dequantizes a constant."""
    if node.target not in CALLS or node.meta["val"].dtype not in (torch.float32, torch.float16):
        return False
    return quantized_constant(node, constant) is not None


def has_form(weight: QuantizedConstant, axis: int = 0) -> bool:
    """Whether the runtime has a form for a weight.

    Args:
        weight: the weight.
        axis: the dimension of the result's channels.
    """
    if weight.dtype != torch.int8 or weight.zero_points is not None:
        return False
    # a bias cannot be quantized with a scale of zero, or below float32
    if not weight.values.numel() or not are_normal_scales(weight.scales):
        return False
    is_grouped = axis == 0 and weight.values.dim() == 2 and weight.block[1] % _GROUP == 0
    return weight.is_per_channel(axis) or is_grouped


def layer_of(node: Node, constant: Constant) -> QuantizedLayer | None:
    """Returns a layer with a quantized weight; None if the runtime has no form for its weight."""
    found = quantized_layer(node, constant)
    return found if found is not None and has_form(found.weight, found.axis) else None


def takes_dynamically_quantized(layer: QuantizedLayer) -> bool:
    """Whether the runtime multiplies dynamically quantized rows by a layer's weight."""
    return not layer.group_size or layer.weight.is_int4


def quantized_bias(bias: Tensor, scales: Tensor) -> Tensor | None:
    """Returns a bias quantized to int32; None if it is out of int32's range.

    Args:
        bias: its values.
        scales: that of each channel: that of the input times that of the weight.
    """
    values = torch.round(bias.detach().to(torch.float64) / scales.to(torch.float64))
    return values.to(torch.int32) if bool((values.abs() < 2.0**31).all()) else None
