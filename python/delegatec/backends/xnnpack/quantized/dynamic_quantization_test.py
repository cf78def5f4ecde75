# SPDX-License-Identifier: Apache-2.0
"""Layers whose inputs are dynamically quantized."""

from __future__ import annotations

import torch
from torch import Tensor

from delegatec.backends.common.testing import Call, compile_module
from delegatec.backends.xnnpack.backend import XNNPACK
from delegatec.edge.quantization.operators import quantized

INT8_WEIGHT = (torch.arange(32) % 7 - 3).to(torch.int8).reshape(4, 8)


def test_a_computed_bias_of_inputs_with_one_scale() -> None:
    """A convolution, by which several rows have one scale, has a constant bias."""

    def layer(x: Tensor, bias: Tensor) -> Tensor:
        scale, zero = quantized.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
        quantized_values = quantized.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
        x = quantized.dequantize_per_tensor.tensor(quantized_values, scale, zero, -128, 127, torch.int8)
        zeros = torch.zeros(4, dtype=torch.int64)
        scales = torch.full((4,), 0.1)
        weight = quantized.dequantize_per_channel(INT8_WEIGHT, scales, zeros, 0, -127, 127, torch.int8)
        return torch.nn.functional.linear(x, weight, bias)

    x, bias = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)), torch.arange(4.0)
    compiled = compile_module("xnnpack", Call(layer), (x, bias), XNNPACK.preserved_operators())
    assert len(compiled.delegates) == 1
    assert (compiled(x, bias)[0] - layer(x, bias)).abs().max() < 0.05
