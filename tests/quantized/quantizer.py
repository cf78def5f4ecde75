# SPDX-License-Identifier: Apache-2.0
"""Quantizes the linear layers of a model, with the operators of quantizers in an exported program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

# Registers torch.ops.quantized_decomposed.
import torch.ao.quantization.fx._decomposed  # isort: skip

quantized = torch.ops.quantized_decomposed
_INT8: Final = (-128, 127, torch.int8)
_INT4: Final = (-8, 7, torch.int8)


class Int8Linear(nn.Module):
    """int8 weights with one scale for each row.

    Args:
        linear: the layer that it replaces.
    """

    weight: Tensor
    scales: Tensor
    zeros: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.bias = linear.bias
        self.register_buffer("scales", weight.abs().amax(1) / 127)
        self.register_buffer("zeros", torch.zeros(len(weight), dtype=torch.int64))
        self.register_buffer(
            "weight", quantized.quantize_per_channel(weight, self.scales, self.zeros, 0, *_INT8)
        )

    def forward(self, x: Tensor) -> Tensor:
        """See `torch.nn.Linear`."""
        weight = quantized.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, *_INT8)
        return F.linear(x, weight, self.bias)


class Int4Linear(nn.Module):
    """Weights of four bits, in int8, with one scale for each 32 columns of a row.

    Args:
        linear: the layer that it replaces.
    """

    weight: Tensor
    scales: Tensor
    zeros: Tensor
    group: Final = 32

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        largest = weight.view(len(weight), -1, self.group).abs().amax(-1)
        self.bias = linear.bias
        self.register_buffer("scales", largest / 7)
        self.register_buffer("zeros", torch.zeros_like(largest, dtype=torch.int32))
        integers = quantized.quantize_per_channel_group(weight, self.scales, self.zeros, *_INT4, self.group)
        self.register_buffer("weight", integers)

    def forward(self, x: Tensor) -> Tensor:
        """See `torch.nn.Linear`."""
        weight = quantized.dequantize_per_channel_group(
            self.weight, self.scales, self.zeros, *_INT4, self.group, torch.float32
        )
        return F.linear(x, weight, self.bias)


class DynamicInt4Linear(Int4Linear):
    """The same after an activation that is quantized to int8 per token at run time ("8da4w")."""

    def forward(self, x: Tensor) -> Tensor:
        """See `torch.nn.Linear`."""
        scales, zeros = quantized.choose_qparams_per_token_asymmetric(x, torch.int8)
        integers = quantized.quantize_per_token(x, scales, zeros, *_INT8)
        return super().forward(quantized.dequantize_per_token(integers, scales, zeros, *_INT8, torch.float32))


def quantize(module: nn.Module, layer: Callable[[nn.Linear], nn.Module]) -> nn.Module:
    """Replaces each linear layer with a quantized one.

    Args:
        module: edited in place.
        layer: one of the classes above.
    """
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, layer(child))
        else:
            quantize(child, layer)
    return module
