# SPDX-License-Identifier: Apache-2.0
"""Weights of layers that are dequantized constants, and biases as the runtime reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.xnnpack.quantized.scales import are_steps
from delegatec.edge.affine import AFFINE
from delegatec.edge.analysis.quantized import Constant, quantized, quantized_constant
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last.operators import NHWC

_INT4: Final = (-8, 7)
_GROUP: Final = 32
"""The runtime's kernels take groups of a multiple of this many inputs."""


CALLS: Final = frozenset(
    {
        quantized.dequantize_per_tensor.default,
        quantized.dequantize_per_channel.default,
        quantized.dequantize_per_channel_group.default,
        AFFINE.dequantize_affine.default,
    }
)
"""Calls that dequantize weights."""


def is_weight(node: Node, constant: Constant) -> bool:
    """Whether a call dequantizes a constant."""
    if node.target not in CALLS or node.meta["val"].dtype not in (torch.float32, torch.float16):
        return False
    return quantized_constant(node, constant) is not None


@dataclass(frozen=True)
class Weight:
    """A quantized weight without zero points.

    Attributes:
        call: the call that dequantizes it. Weights of one constant may have several scales.
        source: the constant of its levels.
        levels: int8, in ATen's order of dimensions.
        steps: float32, [channels of the result], or [channels, groups].
        width: inputs per group; 0 without groups.
    """

    call: Node
    source: Node
    levels: Tensor
    steps: Tensor
    width: int

    def is_int4(self) -> bool:
        """Whether four bits hold its levels."""
        return is_int4(self.levels)

    def takes_rounded(self) -> bool:
        """Whether the runtime multiplies rows that are quantized at run time by it."""
        return not self.width or self.is_int4()


def is_int4(levels: Tensor) -> bool:
    """Whether four bits hold integers."""
    low, high = levels.aminmax()
    return _INT4[0] <= low.item() and high.item() <= _INT4[1]


def weight_of(node: Node, constant: Constant, axis: int = 0, repeats: int = 1) -> Weight | None:
    """Returns the weight that a node dequantizes; None if it is none, or the runtime has no form for it.

    Args:
        node: an operand of a layer.
        constant: returns the value of a constant node, and None for other nodes.
        axis: the dimension of the result's channels.
        repeats: how often these channels repeat: the groups of a transposed convolution.
    """
    found = quantized_constant(node, constant)
    if found is None or found.tensor.dtype != torch.int8 or found.zeros is not None:
        return None
    levels = found.tensor.detach()
    # a scale of zero, or below float32, has no bias in its unit
    if not levels.numel() or not are_steps(found.scales):
        return None
    shape = tuple(levels.shape)
    others = [dim for dim in range(len(shape)) if dim != axis and found.block[dim] != shape[dim]]
    steps = found.scales.to(torch.float32).repeat_interleave(found.block[axis], axis)
    if not others:
        return Weight(node, found.levels, levels, steps.flatten().repeat(repeats), 0)
    width = found.block[1]
    if len(shape) != 2 or axis != 0 or width % _GROUP:
        return None
    return Weight(node, found.levels, levels, steps, width)


def layer_weight(node: Node, constant: Constant) -> Weight | None:
    """Returns the quantized weight of a layer; None if it has none that the runtime has a form for."""
    bound = bind(node)
    if node.target is NHWC.conv_transpose2d.default:
        return weight_of(bound["weight"], constant, 1, bound["groups"])
    return weight_of(bound["weight"], constant)


def layer_bias(node: Node, constant: Constant) -> Tensor | None:
    """Returns the values of a layer's bias, which may be quantized; None if they are not constant."""
    bias = bind(node)["bias"]
    if bias is None:
        return None
    found = quantized_constant(bias, constant)
    return constant(bias) if found is None else found.values()


def bias_levels(bias: Tensor | None, steps: Tensor) -> Tensor | None:
    """Returns a bias in int32; None if int32 does not hold it.

    Args:
        bias: its values.
        steps: the scale of each channel: that of the input times that of the weight.
    """
    if bias is None:
        return torch.zeros(0, dtype=torch.int32)
    levels = torch.round(bias.detach().to(torch.float64) / steps.to(torch.float64))
    return levels.to(torch.int32) if bool((levels.abs() < 2.0**31).all()) else None
