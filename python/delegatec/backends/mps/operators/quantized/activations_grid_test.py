# SPDX-License-Identifier: Apache-2.0
"""Quantized activations: arithmetic in the graph, with int8 weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from delegatec_schemas.mps_graph import DataType
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import floats
from delegatec.backends.mps.blob import read_blob
from delegatec.backends.mps.operators.quantized.testing import (
    INT8,
    Weight,
    one_delegate,
    quantized_values,
    scales,
)
from delegatec.backends.mps.testing import operations
from delegatec.backends.mps.testing.grid import PRECISIONS

quantized = torch.ops.quantized_decomposed
UINT8: Final = (0, 255, torch.uint8)


def _per_channel(x: Tensor, weight: Tensor, scale: Tensor, zeros: Tensor | None) -> Tensor:
    return F.linear(x, quantized.dequantize_per_channel(weight, scale, zeros, 0, *INT8))


def _tokens(x: Tensor, choose: Callable[..., Any]) -> Tensor:
    scale, zeros = choose(x, torch.int8)
    q = quantized.quantize_per_token(x, scale, zeros, *INT8)
    result: Tensor = quantized.dequantize_per_token(q, scale, zeros, *INT8, torch.float32)
    return result


class Int8(nn.Module):
    """A linear layer with an int8 weight, after one of the quantizations of activations."""

    weight: Tensor
    scale: Tensor
    zeros: Tensor

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.register_buffer("weight", quantized_values(48, 64, -128, 127))
        self.register_buffer("scale", scales(48))
        self.register_buffer("zeros", torch.arange(48) - 24)

    def forward(self, x: Tensor) -> Tensor:
        return _per_channel(self.activation(x), self.weight, self.scale, self.zeros)


def _static(x: Tensor, low: int, high: int, dtype: torch.dtype) -> Tensor:
    zero = (low + high) // 2
    q = quantized.quantize_per_tensor(x, 1 / 128, zero, low, high, dtype)
    result: Tensor = quantized.dequantize_per_tensor(q, 1 / 128, zero, low, high, dtype)
    return result


def _dynamic(x: Tensor) -> Tensor:
    scale, zero = quantized.choose_qparams(x, -128, 127, 1e-5, torch.int8)
    q = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    result: Tensor = quantized.dequantize_per_tensor(q, scale, zero, *INT8)
    return result


class Small(Int8):
    """Its scales have few digits in float16."""

    def __init__(self) -> None:
        super().__init__(lambda x: x)
        self.scale *= 1e-4


def test_small_scales_keep_their_digits() -> None:
    one_delegate(Small(), floats(5, 64), 2e-3, precision="fp16")


ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "not quantized": lambda x: x,
    "static int8": lambda x: _static(x, *INT8),
    "static uint8": lambda x: _static(x, *UINT8),
    "dynamic": _dynamic,
    "of tokens": lambda x: _tokens(x, quantized.choose_qparams_per_token_asymmetric),
    "of tokens, symmetric": lambda x: _tokens(x, quantized.choose_qparams_per_token),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_int8_weights_and_activations_are_one_delegate(name: str, precision: str) -> None:
    """Measured: the same values, and 2.4e-3 with fp16, where an activation can be off by 1 LSB."""
    module = Int8(ACTIVATIONS[name])
    compiled = one_delegate(
        module, floats(5, 64), {"fp32": 1e-4, "fp16": 1e-2}[precision], precision=precision
    )
    graph = read_blob(memoryview(compiled.blobs()[0])).graph
    stored = [v.datatype for id in graph.constantIds if list((v := graph.mpsValues[id]).dims) == [48, 64]]
    assert stored == [DataType.INT8]


def test_eight_bits_of_tokens_and_four_of_weights() -> None:
    """8da4w: the activation is quantized as in the program; the peer omits that."""

    class Linear(Weight):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(_tokens(x, quantized.choose_qparams_per_token_asymmetric))

    module = Linear(quantized_values(32, 64), scales(32, 1), torch.zeros(32, 1, dtype=torch.int32), 64)
    x = floats(1, 3, 64)
    one_delegate(module, x, 1e-4)
    compiled = one_delegate(module, x, 3e-3, int4="packed")
    assert {"Round", "DequantizePerChannelGroup"} <= set(operations(compiled.blobs()[0]))
    (result,), exact = compiled(x), Weight.forward(module, x)
    assert (result - exact).abs().max() > 0.005


class Pictures(nn.Module):
    """Convolutions with int8 weights per channel, and uint8 activations, as from PT2E."""

    wide: Tensor
    deep: Tensor
    scales: Tensor
    zeros: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("wide", quantized_values(12, 27, -128, 127).view(12, 3, 3, 3))
        self.register_buffer("deep", quantized_values(4, 27, -128, 127).view(4, 3, 3, 3))
        self.register_buffer("scales", scales(12) / 16)
        self.register_buffer("zeros", torch.zeros(12, dtype=torch.int64))

    def _floating(self, weight: Tensor) -> Tensor:
        count = len(weight)
        result: Tensor = quantized.dequantize_per_channel(
            weight, self.scales[:count], self.zeros[:count], 0, *INT8
        )
        return result

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.conv2d(_static(x, *UINT8), self._floating(self.wide), padding=1).relu()
        hidden = F.conv2d(_static(hidden, *UINT8), self._floating(self.deep), groups=4)
        return hidden.mean((2, 3))


def test_convolutions_of_int8_are_one_delegate() -> None:
    one_delegate(Pictures(), floats(2, 3, 6, 7).abs(), 1e-2)
