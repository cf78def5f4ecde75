# SPDX-License-Identifier: Apache-2.0
"""The operators of PT2E and torchao that quantize and dequantize, and their operands in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

# Registers torch.ops.quantized_decomposed.
import torch
import torch.ao.quantization.fx._decomposed
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.quantization.affine import AFFINE, limits

quantized = torch.ops.quantized_decomposed

QUANTIZE: Final = quantized.quantize_per_tensor.default
DEQUANTIZE: Final = quantized.dequantize_per_tensor.default

_PER_CHANNEL: Final = (quantized.quantize_per_channel.default, quantized.dequantize_per_channel.default)
_PER_GROUP: Final = (
    quantized.quantize_per_channel_group.default,
    quantized.dequantize_per_channel_group.default,
)
_PER_TOKEN: Final = (quantized.quantize_per_token.default, quantized.dequantize_per_token.default)
_AFFINE: Final = (AFFINE.quantize_affine.default, AFFINE.dequantize_affine.default)

CHOOSE: Final = frozenset(
    {
        *(quantized.choose_qparams.tensor, quantized.choose_qparams_symmetric.tensor),
        quantized.choose_qparams_per_token.default,
        quantized.choose_qparams_per_token_asymmetric.default,
        AFFINE.choose_qparams_affine.default,
    }
)
"""Operators that compute a scale and a zero point from a value."""
_DYNAMIC: Final = (
    *(quantized.quantize_per_tensor.tensor, quantized.quantize_per_tensor.tensor2),
    *(quantized.dequantize_per_tensor.tensor, quantized.dequantize_per_tensor.tensor2),
    *(*_PER_TOKEN, *_AFFINE),
)
DYNAMIC: Final = CHOOSE.union(_DYNAMIC)
"""Operators that compute scales, and that quantize and dequantize with them."""
QUANTIZATIONS: Final = frozenset({*_DYNAMIC, QUANTIZE, DEQUANTIZE, *_PER_CHANNEL, *_PER_GROUP})
QUANTIZING: Final = frozenset(each for each in QUANTIZATIONS if each._opname.startswith("quantize"))
DEQUANTIZING: Final = QUANTIZATIONS - QUANTIZING
"""Operators that quantize, and those that dequantize."""
DEQUANTIZE_BLOCKS: Final = AFFINE.dequantize_affine.default
DEQUANTIZE_CONSTANTS: Final = (DEQUANTIZE, DEQUANTIZE_BLOCKS)
"""Operators that dequantize weights and other constants of a program in normal form."""


@dataclass(frozen=True)
class Operands:
    """The operands of a call that quantizes or dequantizes, whichever its operator.

    Attributes:
        x: the values that are quantized or dequantized.
        scale: a float, or the node of a tensor with one for each block.
        zero_point: likewise an integer; None for zeros.
        block: sizes of the blocks, one for each dimension of `x`.
        dtype: of the quantized values.
        low: the least quantized value.
        high: the largest quantized value.
    """

    x: Node
    scale: float | Node
    zero_point: int | Node | None
    block: tuple[Any, ...]
    dtype: torch.dtype
    low: int
    high: int

    def channel_dim(self) -> int | None:
        """Returns the dimension each of whose slices is a block; None if one block is the whole tensor.

        Raises:
            ValueError: the blocks are others.
        """
        shape = self.x.meta["val"].shape
        split = [dim for dim, width in enumerate(self.block) if width != shape[dim]]
        if len(split) > 1 or any(self.block[dim] != 1 for dim in split):
            raise ValueError("groups, or blocks of several dimensions")
        return split[0] if split else None


def operands_of(node: Node) -> Operands:
    """Returns the operands of a call in `QUANTIZING` or `DEQUANTIZING`."""
    bound = bind(node)
    scale, zero_point = (
        bound[name] if name in bound else bound[f"{name}s"] for name in ("scale", "zero_point")
    )
    x, dtype = bound["input"], bound.get("dtype")
    if dtype is None:
        dtype = bound["output_dtype"] if node.target in QUANTIZING else dtype_of(x)
    low, high = limits(dtype, bound["quant_min"], bound["quant_max"])
    return Operands(x, scale, zero_point, tuple(_block(node, bound)), dtype, int(low), int(high))


def _block(node: Node, bound: dict[str, Any]) -> Sequence[Any]:
    shape = list(bound["input"].meta["val"].shape)
    if node.target in _AFFINE:
        return list(bound["block_size"])
    if node.target in _PER_CHANNEL:
        shape[positive(bound["axis"], len(shape))] = 1
    elif node.target in _PER_GROUP:
        is_single = bound["scales"].meta["val"].shape[-1] == 1
        return [1, shape[-1] if is_single else bound["group_size"]]
    elif node.target in _PER_TOKEN:
        return [*[1] * (len(shape) - 1), shape[-1]]
    return shape
