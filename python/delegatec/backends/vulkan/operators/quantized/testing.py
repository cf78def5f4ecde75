# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of quantization."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from delegatec.edge.quantization.operators import quantized

INT8 = (-128, 127, torch.int8)
INT4 = (-8, 7, torch.int8)


class Layer(nn.Module):
    """A function of the input and of constants, which are buffers.

    Args:
        function: of the layer and the input.
        **constants: names and values.
    """

    def __init__(self, function: Callable[..., Tensor], **constants: Tensor | None) -> None:
        super().__init__()
        self.function = function
        for name, value in constants.items():
            self.register_buffer(name, value)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Calls the function."""
        return self.function(self, *inputs)


def quantized_values(*shape: int, low: int = -128, high: int = 127) -> Tensor:
    """Returns random int8 in a range."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(low, high + 1, shape, generator=generator).to(torch.int8)


def scales(*shape: int) -> Tensor:
    """Returns scales."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(7)) / 64 + 2.0**-9


def q(x: Tensor, scale: float = 0.0625, zero: int = 3) -> Tensor:
    """Quantizes to int8."""
    result: Tensor = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    return result


def dq(x: Tensor, scale: float = 0.0625, zero: int = 3) -> Tensor:
    """Dequantizes int8."""
    result: Tensor = quantized.dequantize_per_tensor(x, scale, zero, *INT8)
    return result
