# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: quantized values and weights, and functions of them as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.operators import quantized

INT8 = (-128, 127, torch.int8)


def q(x: Tensor, scale: float = 0.0625, zero: int = 3) -> Tensor:
    """Quantizes to int8."""
    result: Tensor = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    return result


def dq(x: Tensor, scale: float = 0.0625, zero: int = 3) -> Tensor:
    """Dequantizes int8."""
    result: Tensor = quantized.dequantize_per_tensor(x, scale, zero, *INT8)
    return result


def qdq(x: Tensor, scale: float = 0.0625, zero: int = 3) -> Tensor:
    """Quantizes to int8, and dequantizes."""
    return dq(q(x, scale, zero), scale, zero)


def rows(x: Tensor) -> Tensor:
    """Quantizes each row dynamically, and dequantizes."""
    block = [1] * (x.dim() - 1) + [x.shape[-1]]
    parameters = AFFINE.choose_qparams_affine(x, "ASYMMETRIC", block, torch.int8, -128, 127)
    quantized_values = AFFINE.quantize_affine(x, block, *parameters, torch.int8, -128, 127)
    result: Tensor = AFFINE.dequantize_affine(
        quantized_values, block, *parameters, torch.int8, -128, 127, x.dtype
    )
    return result


def per_tensor(x: Tensor) -> Tensor:
    """Quantizes a value dynamically with one scale, and dequantizes."""
    parameters = quantized.choose_qparams.tensor(x, -128, 127, 2**-12, torch.int8)
    quantized_values = quantized.quantize_per_tensor.tensor(x, *parameters, *INT8)
    result: Tensor = quantized.dequantize_per_tensor.tensor(
        quantized_values, *parameters, *INT8, out_dtype=x.dtype
    )
    return result


class Layer(nn.Module):
    """A function of a layer and inputs; the layer has a quantized weight, scales and a bias.

    Args:
        function: of the layer and the inputs.
        shape: of the weight.
        bits: 8 or 4.
        group: inputs per scale; 0 for one scale per output.
        axis: the dimension of the channels of the result.
    """

    values: Tensor
    scales: Tensor
    zeros: Tensor
    bias: Tensor

    def __init__(
        self,
        function: Callable[..., Any],
        shape: tuple[int, ...] = (),
        bits: int = 8,
        group: int = 0,
        axis: int = 0,
    ) -> None:
        super().__init__()
        self.function, self.bits, self.group, self.axis = function, bits, group, axis
        generator = torch.Generator().manual_seed(sum(shape))
        channels = shape[axis] if shape else 1
        most = 2 ** (bits - 1) - 1
        found = torch.randint(-most, most + 1, shape, generator=generator)
        self.register_buffer("values", found.to(torch.int8))
        sizes = (channels, shape[1] // group) if group else (channels,)
        scales = (torch.rand(sizes, generator=generator) + 0.5) / most
        # groupwise scales are representable in bfloat16
        self.register_buffer("scales", scales.to(torch.bfloat16).float() if group else scales)
        self.register_buffer("zeros", torch.zeros(channels, dtype=torch.int64))
        self.register_buffer("bias", torch.randn(channels, generator=generator))

    def weight(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Returns the dequantized weight."""
        most = 2 ** (self.bits - 1) - 1
        if self.group:
            result = quantized.dequantize_per_channel_group(
                self.values, self.scales, None, -most - 1, most, torch.int8, self.group, dtype
            )
        else:
            result = quantized.dequantize_per_channel(
                *(self.values, self.scales, self.zeros, self.axis, -most, most, torch.int8), out_dtype=dtype
            )
        return result  # type: ignore[no-any-return]

    def forward(self, *inputs: Tensor) -> Any:
        """Calls the function."""
        return self.function(self, *inputs)


class GroupedLinear(nn.Module):
    """A linear layer whose weight has a scale, and possibly a zero point, for each group of inputs.

    Args:
        shape: of the weight: outputs, inputs.
        width: inputs per group.
        limits: the least and the largest quantized value.
        has_zeros: whether there are zero points.
        has_bias: whether there is a bias.
        dtype: of the quantized values.
    """

    values: Tensor
    scales: Tensor
    zeros: Tensor | None

    def __init__(
        self,
        shape: tuple[int, int],
        width: int,
        limits: tuple[int, int] = (-8, 7),
        *,
        has_zeros: bool = False,
        has_bias: bool = True,
        dtype: torch.dtype = torch.int8,
    ) -> None:
        super().__init__()
        (low, high), self.width = limits, width
        generator = torch.Generator().manual_seed(sum(shape))
        found = torch.randint(low, high + 1, shape, generator=generator)
        self.register_buffer("values", found.to(dtype))
        sizes = shape[0], shape[1] // width
        self.register_buffer("scales", (torch.rand(sizes, generator=generator) + 0.5) / (high - low))
        zeros = torch.randint(low, high + 1, sizes, generator=generator).to(dtype)
        self.register_buffer("zeros", zeros if has_zeros else None)
        self.bias = nn.Parameter(torch.randn(shape[0], generator=generator)) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Multiplies by the dequantized weight."""
        weight = AFFINE.dequantize_affine(
            *(self.values, [1, self.width], self.scales, self.zeros, self.values.dtype), output_dtype=x.dtype
        )
        return nn.functional.linear(x, weight, self.bias)
