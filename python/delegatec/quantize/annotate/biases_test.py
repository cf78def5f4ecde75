# SPDX-License-Identifier: Apache-2.0
"""Biases of quantized layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


def test_biases_of_tiny_weights_do_not_overflow() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 3).eval()
    with torch.no_grad():
        layer.weight[1] = 0
        layer.bias.copy_(torch.tensor([1.0, 900.0, -1.0]))
    x = torch.randn(8, 4) / 100
    (program,) = quantized(layer, (x,), Settings(activation="int16")).methods.values()
    with torch.no_grad():
        found = program.module(check_guards=False)(x)
    torch.testing.assert_close(found, layer(x), rtol=0, atol=0.02)


class SharedWeight(nn.Module):
    """A product of small values with a weight that others read."""

    def __init__(self, is_constant: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4)) if is_constant else None
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        weight = y if self.weight is None else self.weight
        return F.linear(x, weight, self.bias), weight.abs() * 2


@pytest.mark.parametrize("is_constant", [True, False])
def test_a_weight_of_a_layer_of_zeros_keeps_its_values_for_others(is_constant: bool) -> None:
    """As for a state that is zero in all samples: the bias needs another scale of the weight."""
    torch.manual_seed(0)
    module = SharedWeight(is_constant).eval()
    inputs = torch.zeros(3, 4), torch.randn(6, 4)
    (program,) = quantized(module, inputs, Settings(activation="int16")).methods.values()
    with torch.no_grad():
        found = program.module(check_guards=False)(*inputs)
    for wanted, result in zip(module(*inputs), found, strict=True):
        assert signal_to_noise(wanted, result) > 60


def test_the_bias_of_an_empty_weight_keeps_its_values() -> None:
    """It would be rounded to integers, as the scale of a value that has no elements is 1."""
    bias = torch.tensor([-0.14, 0.82, -2.62])
    for constant in (True, False):
        module = EmptyWeight(bias, constant)
        inputs = torch.zeros(4, 0), torch.zeros(3, 0)
        (program,) = quantized(module, inputs, Settings()).methods.values()
        with torch.no_grad():
            found = program.module(check_guards=False)(*inputs)
        assert signal_to_noise(module(*inputs), found) > 40


class EmptyWeight(nn.Module):
    """A linear function of no values."""

    def __init__(self, bias: Tensor, constant: bool) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)
        self.weight = nn.Parameter(torch.zeros(3, 0)) if constant else None

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.linear(x, weight if self.weight is None else self.weight, self.bias) * 2


class Affine(nn.Module):
    """A product and a sum."""

    def __init__(self, bias: Tensor, weight: Tensor, factors: dict[str, Any]) -> None:
        super().__init__()
        self.bias, self.weight, self.factors = nn.Parameter(bias), nn.Parameter(weight), factors

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight, **self.factors)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(3,), (5, 3), (5, 1), (1,), ()])
@pytest.mark.parametrize("factors", [{}, {"beta": 100, "alpha": 100}, {"alpha": 0.5}])
def test_the_bias_of_a_product_is_a_row_or_a_sum(shape: tuple[int, ...], factors: dict[str, Any]) -> None:
    torch.manual_seed(0)
    module = Affine(torch.randn(shape), torch.randn(4, 3), factors)
    x = torch.randn(5, 4)
    (program,) = quantized(module, (x,), Settings()).methods.values()
    is_row = shape == (3,) and not factors
    assert is_row != any(node.target is torch.ops.aten.add.Tensor for node in program.graph.nodes)
    with torch.no_grad():
        assert signal_to_noise(module(x), program.module(check_guards=False)(x)) > 33
