# SPDX-License-Identifier: Apache-2.0
"""Models whose inputs have NaN or infinities where a value is missing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

RANDOM = torch.Generator().manual_seed(0)
X = torch.randn(4, 16, generator=RANDOM) + 2
MISSING = X.masked_fill(torch.rand(4, 16, generator=RANDOM) < 0.3, math.nan)
INFINITE = torch.cat([X[:2].masked_fill(X[:2] > 3, math.inf), X[2:].masked_fill(X[2:] < 1, -math.inf)])
PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.matmul.default)


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(16, 8)
        self.register_buffer("total", torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        x = self.function(x)
        self.total.add_(x.mean(0))
        result: Tensor = self.linear(x) + self.total.sum()
        return result


@pytest.mark.parametrize(
    ("function", "x"),
    [
        pytest.param(lambda x: x.nan_to_num(0.0), MISSING, id="nan_to_num"),
        pytest.param(lambda x: torch.where(x.isnan(), 0.5, x), MISSING, id="where"),
        pytest.param(lambda x: x.masked_fill(x != x, 0.5), MISSING, id="masked_fill"),
        pytest.param(lambda x: x.view(2, 2, 16).mT.nan_to_num(1.0).mT.flatten(0, 1), MISSING, id="a view"),
        pytest.param(lambda x: ((x - 2) / 0.5).nan_to_num(0.0), MISSING, id="computed"),
        pytest.param(lambda x: (x - x.nanmean(1, keepdim=True)).nan_to_num(0.0), MISSING, id="nanmean"),
        pytest.param(lambda x: x.nan_to_num(posinf=1.0, neginf=-1.0), INFINITE, id="infinities"),
        pytest.param(lambda x: torch.where(x.isfinite(), x, -1.0), INFINITE, id="isfinite"),
    ],
)
def test_missing_values_are_those_of_the_model(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    torch.manual_seed(0)
    model = Model(function)
    (program,) = quantized(model, (x,), Settings(), [((x,), {})]).methods.values()
    called = program.module(check_guards=False)
    for _ in range(2):
        assert signal_to_noise(model(x), called(x)) > 30


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x.nan_to_num(0.0), id="nan_to_num"),
        pytest.param(lambda x: torch.where(x.view(2, 2, 16).isnan().view(4, 16), 0.5, x), id="a view"),
        pytest.param(lambda x: ((x - 1) / 0.5).nan_to_num(0.0), id="computed"),
    ],
)
def test_inputs_that_the_model_tests_may_have_missing_values(function: Callable[[Tensor], Tensor]) -> None:
    """Although none of the samples has one."""
    torch.manual_seed(0)
    model = Model(function)
    (program,) = quantized(model, (X,), Settings()).methods.values()
    assert signal_to_noise(model(MISSING), program.module(check_guards=False)(MISSING)) > 30


def test_inputs_are_quantized_if_nan_is_not_replaced() -> None:
    class Tested(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x @ x.T, x.isnan().any()

    (program,) = quantized(Tested(), (X,), Settings()).methods.values()
    (product,) = (node for node in program.graph.nodes if node.target in PRODUCTS)
    assert all("dequantize" in str(each.target) for each in product.all_input_nodes)


def test_infinite_masks_are_quantized() -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return torch.softmax(x @ x.T + mask, -1)

    mask = torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1) > 0, -math.inf)
    (program,) = quantized(Masked(), (X, mask), Settings()).methods.values()
    (addition,) = program.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    assert all("dequantize" in str(each.target) for each in addition.all_input_nodes)
