# SPDX-License-Identifier: Apache-2.0
"""Quantized constants: integer levels with a scale, and maybe a zero point, per block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

# Registers torch.ops.quantized_decomposed.
import torch
import torch.ao.quantization.fx._decomposed
from torch import Tensor
from torch.fx import Node

from delegatec.edge.affine import AFFINE
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed

LEVELS: Final = (torch.int8, torch.uint8, torch.int16, torch.int32)


@dataclass(frozen=True)
class QuantizedConstant:
    """The operands of a dequantization: (levels - zeros) * scales, for each block.

    Attributes:
        levels: the integers: a constant, or rows of one.
        tensor: their value; do not write to it.
        block: sizes of a block, one per dimension of the levels; each divides that of the levels.
        scales: floating point, one per block, in as many dimensions.
        zeros: of the same shape; None if all are zero.
    """

    levels: Node
    tensor: Tensor
    block: tuple[int, ...]
    scales: Tensor
    zeros: Tensor | None

    def values(self) -> Tensor:
        """Returns the numbers that the levels stand for, in the dtype of the scales."""
        scales, zeros = self.scales, self.zeros
        for dim, width in enumerate(self.block):
            scales = scales.repeat_interleave(width, dim)
            zeros = None if zeros is None else zeros.repeat_interleave(width, dim)
        return (self.tensor.detach().to(scales.dtype) - (0 if zeros is None else zeros)) * scales


Constant = Callable[[Node], Tensor | None]
"""Returns the value of a constant."""


def quantized_constant(node: Node, constant: Constant) -> QuantizedConstant | None:
    """Returns the operands of a call that dequantizes constants; None for any other node.

    A conversion of integers to floating point is one, with the scale 1.

    Args:
        node: the call.
        constant: returns the value of a constant node, and None for other nodes.
    """
    operands = _operands(node)
    if operands is None:
        return None
    levels, scales, zeros, block = operands
    shape, tensor = shape_of(levels), constant(levels)
    if tensor is None or dtype_of(levels) not in LEVELS or len(block) != len(shape):
        return None
    counts = [size // width for size, width in zip(shape, block, strict=True)]
    found = [_per_block(each, constant, counts) for each in (scales, zeros)]
    if found[0] is None or (found[1] is None and zeros is not None):
        return None
    is_shifted = found[1] is not None and bool(found[1].any())
    return QuantizedConstant(levels, tensor, tuple(block), found[0], found[1] if is_shifted else None)


def _operands(node: Node) -> tuple[Node, Any, Any, Sequence[int]] | None:
    if node.op != "call_function":
        return None
    if node.target is aten._to_copy.default:
        source = node.all_input_nodes[0]
        is_levels = dtype_of(source) in LEVELS and dtype_of(node).is_floating_point
        return (source, 1.0, None, shape_of(source)) if is_levels else None
    if node.target is quantized.dequantize_per_tensor.default:
        bound = bind(node)
        return bound["input"], bound["scale"], bound["zero_point"], shape_of(bound["input"])
    if node.target is quantized.dequantize_per_channel.default:
        bound = bind(node)
        block = list(shape_of(bound["input"]))
        block[positive(bound["axis"], len(block))] = 1
        return bound["input"], bound["scales"], bound["zero_points"], block
    if node.target is quantized.dequantize_per_channel_group.default:
        bound = bind(node)
        _, columns = shape_of(bound["input"])
        width = columns if shape_of(bound["scales"])[-1] == 1 else bound["group_size"]
        return bound["input"], bound["scales"], bound["zero_points"], [1, width]
    if node.target is AFFINE.dequantize_affine.default:
        bound = bind(node)
        return bound["input"], bound["scale"], bound["zero_point"], bound["block_size"]
    return None


def _per_block(value: Any, constant: Constant, counts: Sequence[int]) -> Tensor | None:
    """Returns a number per block; None for a tensor that is not a constant."""
    found = constant(value) if isinstance(value, Node) else None if value is None else torch.tensor(value)
    if found is None:
        return None
    found = found.detach()
    return found.reshape(()).expand(list(counts)) if found.numel() == 1 else found.reshape(list(counts))
