# SPDX-License-Identifier: Apache-2.0
"""Functions in pieces: elements that a mask leaves out have no part in ranges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import Function
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

X = 2 * torch.randn(8, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("function", "least"),
    [
        pytest.param(lambda x: torch.where(x > 0, x, x.exp() - 1), 30, id="elu"),
        pytest.param(lambda x: torch.where(x > 3, x, torch.log1p(x.exp())), 30, id="softplus"),
        pytest.param(lambda x: torch.where(x.abs() < 0.1, x * x / 2, x.abs() / 10 - 0.005), 30, id="huber"),
        pytest.param(lambda x: torch.where(x.abs() > 0.5, 1 / x, 4 * x), 25, id="a safe quotient"),
        pytest.param(lambda x: x.exp().masked_fill(x > 1, 3.0), 25, id="filled"),
        pytest.param(
            lambda x: torch.where(x > 0, x, torch.where(x > -1, x.exp() - 1, x.exp() * 2)), 20, id="nested"
        ),
        pytest.param(
            lambda x: torch.where(x[:1] > 0, x.exp() * 1e-3, x.exp() * 1e-3), 30, id="a mask with one row"
        ),
        pytest.param(lambda x: torch.where(x > 100, x.exp() * 2, x), 30, id="never selected"),
        pytest.param(lambda x: (lambda y: torch.where(x > 0, x, y) + y)(x.exp()), 35, id="read by others"),
    ],
)
def test_the_result_is_near_to_that_in_float(function: Callable[[Tensor], Tensor], least: float) -> None:
    module = Function(function)
    program = quantized(module, (X,), Settings()).methods["forward"]
    assert signal_to_noise(module(X), program.module(check_guards=False)(X)) > least


def test_a_range_that_no_sample_selects_is_that_of_all() -> None:
    module = Function(lambda x, mask: torch.where(mask, (x * 3).sin(), x))
    inputs = (X, torch.zeros(8, 64, dtype=torch.bool))
    program = quantized(module, inputs, Settings()).methods["forward"]
    selected = (X, torch.ones(8, 64, dtype=torch.bool))
    with torch.no_grad():
        assert signal_to_noise(module(*selected), program.module(check_guards=False)(*selected)) > 25
