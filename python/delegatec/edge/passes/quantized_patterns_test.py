# SPDX-License-Identifier: Apache-2.0
"""Passes leave quantization next to the operators that it is for, if a backend requests it whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.edge import to_edge
from delegatec.edge.printer import print_program
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.testing import assert_computes

aten, quantized = torch.ops.aten, torch.ops.quantized_decomposed
INT8: Final = (-128, 127, torch.int8)
PRESERVED: Final = frozenset(
    {
        *(getattr(quantized.quantize_per_tensor, name) for name in ("default", "tensor", "tensor2")),
        *(getattr(quantized.dequantize_per_tensor, name) for name in ("default", "tensor", "tensor2")),
        quantized.quantize_per_channel.default,
        quantized.choose_qparams.tensor,
        quantized.choose_qparams_per_token_asymmetric.default,
        quantized.quantize_per_token.default,
        quantized.dequantize_per_token.default,
        AFFINE.choose_qparams_affine.default,
        AFFINE.quantize_affine.default,
        AFFINE.dequantize_affine.default,
        aten.linear.default,
    }
)


def _q(x: Tensor, scale: float = 0.05) -> Tensor:
    result: Tensor = quantized.quantize_per_tensor(x, scale, 3, *INT8)
    return result


def _dq(x: Tensor, scale: float = 0.05) -> Tensor:
    result: Tensor = quantized.dequantize_per_tensor(x, scale, 3, *INT8)
    return result


class Layer(nn.Module):
    """Quantized weights and a function that uses them."""

    weight: Tensor
    kernel: Tensor
    groups: Tensor
    bias: Tensor
    scale: Tensor
    zeros: Tensor
    group_scale: Tensor

    def __init__(self, function: Callable[[Layer, Tensor], Tensor]) -> None:
        super().__init__()
        quantized_values = torch.arange(-64, 64).to(torch.int8)
        self.function = function
        # of less elements than are folded otherwise
        self.register_buffer("weight", quantized_values[:64].view(8, 8))
        self.register_buffer("kernel", quantized_values[:18].view(2, 1, 3, 3))
        self.register_buffer("groups", quantized_values.view(8, 16))
        self.register_buffer("bias", torch.arange(8, dtype=torch.int32))
        self.register_buffer("scale", torch.arange(1, 9) / 8)
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("group_scale", torch.arange(1, 17).view(8, 2) / 16)

    def rows(self) -> Tensor:
        """float32 [8, 8]."""
        result: Tensor = quantized.dequantize_per_channel(
            self.weight, self.scale, self.zeros, 0, -127, 127, torch.int8
        )
        return result

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def _static(layer: Layer, x: Tensor) -> Tensor:
    bias = quantized.dequantize_per_tensor(layer.bias, 0.01, 0, -(2**31), 2**31 - 1, torch.int32)
    return _dq(_q(F.linear(_dq(_q(x)), layer.rows(), bias).relu(), 0.1), 0.1)


def _dynamic(layer: Layer, x: Tensor) -> Tensor:
    scale, zero = quantized.choose_qparams(x, -128, 127, 1e-5, torch.int8)
    quantized_values = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    return F.linear(quantized.dequantize_per_tensor(quantized_values, scale, zero, *INT8), layer.rows())


def _tokens(layer: Layer, x: Tensor) -> Tensor:
    scale, zero = quantized.choose_qparams_per_token_asymmetric(x, torch.int8)
    quantized_values = quantized.quantize_per_token(x, scale, zero, *INT8)
    weight = quantized.dequantize_per_channel_group(
        layer.groups, layer.group_scale, None, *INT8, 8, torch.float32
    )
    x = quantized.dequantize_per_token(quantized_values, scale, zero, *INT8, torch.float32)
    return F.linear(torch.cat([x, x], -1), weight)


def _affine(layer: Layer, x: Tensor) -> Tensor:
    block = [1, 8]
    scale, zero = AFFINE.choose_qparams_affine(x, "ASYMMETRIC", block, torch.int8)
    quantized_values = AFFINE.quantize_affine(x, block, scale, zero, torch.int8)
    return F.linear(AFFINE.dequantize_affine(quantized_values, block, scale, zero, torch.int8), layer.rows())


def _shared(layer: Layer, x: Tensor) -> Tensor:
    """An activation with two users, each with its own call; a sum and a concatenation of the same scale."""
    quantized_values = _q(x)
    total = _q(_dq(quantized_values) + _dq(_q(_dq(quantized_values).relu())))
    return _dq(_q(torch.cat([_dq(total), _dq(quantized_values)], 1)))


def _moved(layer: Layer, x: Tensor) -> Tensor:
    """Movements between layers stay outside of pairs of calls."""
    x = _dq(_q(_dq(_q(x)).view(2, 2, 4).permute(0, 2, 1)))
    return _dq(_q(_dq(_q(x + 1)).permute(0, 2, 1).reshape(4, 4)))


def _image(layer: Layer, x: Tensor) -> Tensor:
    kernel = quantized.dequantize_per_channel(
        layer.kernel, layer.scale[:2], layer.zeros[:2], 0, -127, 127, torch.int8
    )
    return _dq(_q(F.conv2d(_dq(_q(x.view(1, 2, 2, 4))), kernel, padding=1, groups=2)))


Q, DQ = "quantize_per_tensor", "dequantize_per_tensor"
CASES: Final[list[tuple[Callable[[Layer, Tensor], Tensor], str]]] = [
    (_static, f"{DQ} {Q} {DQ} dequantize_affine linear relu {Q} {DQ}"),
    (_dynamic, f"choose_qparams {Q} {DQ} dequantize_affine linear"),
    (
        _tokens,
        "choose_qparams_per_token_asymmetric quantize_per_token dequantize_affine "
        "dequantize_per_token cat linear",
    ),
    (_affine, "choose_qparams_affine quantize_affine dequantize_affine dequantize_affine linear"),
    (_shared, f"{Q} {DQ} {DQ} relu {Q} {DQ} add {Q} {DQ} {DQ} cat {Q} {DQ}"),
    (_moved, f"{Q} {DQ} view permute {Q} {DQ} add {Q} {DQ} permute view {Q} {DQ}"),
    (_image, f"dequantize_affine view {Q} {DQ} convolution {Q} {DQ}"),
]
X: Final = torch.linspace(-2, 2, 16).view(2, 8)


def _called(text: str) -> list[str]:
    calls = [line.partition(" = ")[2].partition("(")[0] for line in text.splitlines() if " = " in line]
    return [call.split(".")[1] for call in calls if "." in call]


@pytest.mark.parametrize(("function", "calls"), CASES)
def test_patterns_are_complete(function: Any, calls: str) -> None:
    module = Layer(function)
    program = to_edge(torch.export.export(module, (X,)), preserve=PRESERVED)
    assert _called(print_program(program)) == calls.split()
    assert_computes(program, module(X), X)


@pytest.mark.parametrize("function", [function for function, _ in CASES])
def test_without_a_backend_they_are_arithmetic(function: Any) -> None:
    module = Layer(function)
    program = to_edge(torch.export.export(module, (X,)))
    assert not any("quantize" in call or "choose" in call for call in _called(print_program(program)))
    assert_computes(program, module(X), X)
