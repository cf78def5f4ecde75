# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: constants that are dequantized by any of the operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn

from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import quantized

INT8: Final = (-128, 127, torch.int8)

Call = Callable[["Constant"], Tensor]


class Constant(nn.Module):
    """The values of a constant, by any of the operators.

    Args:
        call: computes them.
        shape: of the constant.
        scales: shape of its scales.
        has_zeros: whether zero points are not 0.
        dtype: of the constant.
    """

    values: Tensor
    scales: Tensor
    zeros: Tensor

    def __init__(
        self,
        call: Call,
        shape: tuple[int, ...],
        scales: tuple[int, ...] = (),
        has_zeros: bool = True,
        dtype: torch.dtype = torch.int8,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        limits = torch.iinfo(dtype)
        values = torch.randint(limits.min, limits.max + 1, shape, generator=generator).to(dtype)
        zeros = torch.randint(-9, 9, scales, generator=generator) if has_zeros else None
        for name, value in (
            ("values", values),
            ("scales", torch.rand(scales, generator=generator) + 0.25),
            ("zeros", torch.zeros(scales, dtype=torch.int64) if zeros is None else zeros),
        ):
            self.register_buffer(name, value)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return x + self.call(self)


def per_tensor(own: Constant) -> Tensor:
    """Dequantizes with one scale."""
    found: Tensor = quantized.dequantize_per_tensor(own.values, 0.125, 5, *INT8)
    return found


def per_channel(axis: int) -> Call:
    """Returns a dequantization with a scale for each slice along a dimension."""
    return lambda own: quantized.dequantize_per_channel(own.values, own.scales, own.zeros, axis, *INT8)


def per_group(width: int) -> Call:
    """Returns a dequantization with scales of groups of columns."""
    return lambda own: quantized.dequantize_per_channel_group(
        own.values, own.scales, own.zeros, *INT8, width, torch.float32
    )


def in_blocks(*block: int, dtype: torch.dtype = torch.int8) -> Call:
    """Returns a dequantization with scales of blocks."""
    return lambda own: AFFINE.dequantize_affine(own.values, list(block), own.scales, own.zeros, dtype)
