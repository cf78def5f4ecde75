# SPDX-License-Identifier: Apache-2.0
"""Quantized tensors have the values of PT2E's operators, which are all decomposed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import assert_computes, called, edge

quantized = torch.ops.quantized_decomposed
X = torch.tensor([[-9.0, -0.51, 0.25, 0.75], [0.0, 0.03, 1.25, 9.0]])
INT8 = (-128, 127, torch.int8)
QUANTIZED = torch.arange(-4, 4, dtype=torch.int8).view(2, 4)
WIDE = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
ROWS = torch.arange(-8, 8, dtype=torch.int8).repeat(5, 4)
GROUPS = torch.arange(1, 11).view(5, 2) / 8
GROUP_ZEROS = torch.tensor([[0, 1], [-1, 2], [3, 0], [0, -4], [5, 6]], dtype=torch.int32)
INT4 = (-8, 7, torch.int8)
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.3, 0.4]), torch.tensor([0, 1, -2, 3])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: quantized.quantize_per_tensor(x, 0.05, 3, *INT8), X),
        (lambda x: quantized.quantize_per_tensor(x, 0.5, 0, *INT8), X.half()),
        (lambda x: quantized.quantize_per_tensor(x, torch.tensor(0.05), torch.tensor(3), *INT8), X),
        (lambda x: quantized.dequantize_per_tensor(x, 0.05, 3, *INT8), QUANTIZED),
        (lambda x: quantized.dequantize_per_tensor(x, 0.05, 3, *INT8, out_dtype=torch.float16), QUANTIZED),
        (lambda x: quantized.quantize_per_channel(x, SCALES, ZEROS, 1, *INT8), X),
        (lambda x: quantized.dequantize_per_channel(x, SCALES, ZEROS, 1, *INT8), QUANTIZED),
        (lambda x: quantized.dequantize_per_channel(x, SCALES[:2], None, 0, *INT8), QUANTIZED),
        (lambda x: quantized.quantize_per_channel_group(x, GROUPS, GROUP_ZEROS, *INT4, 32), WIDE),
        (
            lambda x: quantized.dequantize_per_channel_group(
                x, GROUPS, GROUP_ZEROS, *INT4, 32, torch.float32
            ),
            ROWS,
        ),
        (
            lambda x: quantized.dequantize_per_channel_group(
                x, GROUPS.half(), None, *INT4, 32, torch.float16
            ),
            ROWS,
        ),
        (
            lambda x: quantized.dequantize_per_channel_group(
                x, GROUPS[:, :1], None, *INT4, 256, torch.float32
            ),
            ROWS,
        ),
        (lambda x: quantized.convert_element_type.no_fuse(x, torch.float64), X),
    ],
)
def test_same_results(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    program = edge(function, x)
    assert called(program) and all(operator.namespace == "aten" for operator in called(program))
    expected = function(x)
    assert len(torch.unique(expected)) > 3
    assert_computes(program, expected, x)


def _static(x: Tensor) -> Tensor:
    quantized_values = quantized.quantize_per_tensor(x, 0.05, 128, 0, 255, torch.uint8)
    result: Tensor = quantized.dequantize_per_tensor(quantized_values, 0.05, 128, 0, 255, torch.uint8)
    return result


def _chosen(x: Tensor) -> Tensor:
    scale, zero = quantized.choose_qparams(x, -128, 127, 1e-5, torch.int8)
    quantized_values = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    result: Tensor = quantized.dequantize_per_tensor(quantized_values, scale, zero, *INT8)
    return result


def _chosen_symmetric(x: Tensor) -> Tensor:
    scale, zero = quantized.choose_qparams_symmetric(x, -128, 127, 1e-5, torch.int8)
    quantized_values = quantized.quantize_per_tensor(x, scale, zero, *INT8)
    result: Tensor = quantized.dequantize_per_tensor(quantized_values, scale, zero, *INT8)
    return result


def _of_tokens(choose: Callable[..., tuple[Tensor, Tensor]]) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        scales, zeros = choose(x, torch.int8)
        quantized_values = quantized.quantize_per_token(x, scales, zeros, *INT8)
        result: Tensor = quantized.dequantize_per_token(quantized_values, scales, zeros, *INT8, torch.float32)
        return result

    return function


@pytest.mark.parametrize("x", [WIDE, WIDE.abs(), -WIDE.abs(), WIDE * 1e-9, torch.zeros(2, 3)])
@pytest.mark.parametrize(
    "function",
    [
        _static,
        _chosen,
        _chosen_symmetric,
        _of_tokens(quantized.choose_qparams_per_token),
        _of_tokens(quantized.choose_qparams_per_token_asymmetric),
    ],
)
def test_activations_stay_in_one_dtype(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Quantized values are float32: neither uint8 nor float64, which delegates do not support."""
    program = edge(function, x)
    assert {node.meta["val"].dtype for node in program.graph.nodes if node.op == "call_function"} <= {
        torch.float32,
        torch.bool,
    }
    assert_computes(program, function(x), x)


def _half(choose: Callable[..., tuple[Tensor, Tensor]], *arguments: object) -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        parameters = choose(x, *arguments)
        quantized_values = quantized.quantize_per_tensor(x, *parameters, *INT8)
        result: Tensor = quantized.dequantize_per_tensor(
            quantized_values, *parameters, *INT8, out_dtype=x.dtype
        )
        return result

    return function


@pytest.mark.parametrize(
    "function",
    [
        _half(quantized.choose_qparams, -128, 127, 1e-5, torch.int8),
        _half(quantized.choose_qparams_symmetric, -128, 127, 1e-5, torch.int8),
        lambda x: quantized.dequantize_per_tensor(
            x.to(torch.int8), torch.tensor([0.05]), torch.tensor([3]), *INT8, out_dtype=torch.float16
        ),
    ],
)
def test_values_of_float16_are_dequantized_to_float16(function: Callable[[Tensor], Tensor]) -> None:
    """The parameters are float32, in which the quantized values are multiplied."""
    x = WIDE.half()
    expected = function(x)
    assert expected.dtype == torch.float16
    assert_computes(edge(function, x), expected, x, atol=2e-3)


def test_quantized_weights_are_not_unfolded() -> None:
    class Linear(torch.nn.Module):
        weight: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.arange(4096).view(64, 64).to(torch.int8))

        def forward(self, x: Tensor) -> Tensor:
            each = torch.arange(1, 65) / 64
            weight: Tensor = quantized.dequantize_per_channel(self.weight, each, None, 0, *INT8)
            return x @ weight.T

    program = edge(Linear(), WIDE)
    assert {value.dtype for value in program.constants.values() if value.numel() == 4096} == {torch.int8}
    assert_computes(program, Linear()(WIDE), WIDE, atol=1e-3)
