# SPDX-License-Identifier: Apache-2.0
"""Functions with one scale, although torch computes them by several operators of wider ranges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.edge.testing import Function
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

X = 1.5 * torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("function", "x"),
    [
        pytest.param(torch.sinc, X, id="sinc"),
        pytest.param(torch.special.entr, X.sigmoid(), id="entr"),
        pytest.param(torch.special.log_ndtr, X, id="log_ndtr"),
        pytest.param(F.rrelu, X, id="rrelu"),
        pytest.param(lambda x: torch.lerp(x, x.flip(0), 0.5), X, id="lerp by a number"),
        pytest.param(lambda x: torch.quantile(x, 0.25, 1), X[:, :7], id="lerp by a tensor"),
        pytest.param(
            lambda x: F.soft_margin_loss(x, X.flip(0).sign(), reduction="none"),
            X * 4,
            id="soft_margin_loss",
        ),
        pytest.param(lambda x: F.huber_loss(x, X.flip(0) * 100, delta=0.1), X * 100, id="huber_loss"),
        pytest.param(lambda x: F.smooth_l1_loss(x, X.flip(0), beta=1e-3), X, id="smooth_l1_loss"),
    ],
)
def test_the_result_is_near_to_that_in_float(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    module = Function(lambda x: function(x * 1.0))
    found = quantized(module, (x,), Settings()).methods["forward"].module(check_guards=False)(x)
    assert signal_to_noise(module(x), found) > 30


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize(
    "module", [torch.nn.LayerNorm(64), torch.nn.RMSNorm(64), torch.nn.GroupNorm(4, 16)], ids=repr
)
def test_norms_of_small_values(module: torch.nn.Module, scale: float) -> None:
    x = scale * torch.randn(4, 16, 64, generator=torch.Generator().manual_seed(0))
    found = quantized(module, (x,), Settings()).methods["forward"].module(check_guards=False)(x)
    assert signal_to_noise(module(x), found) > 33


@pytest.mark.parametrize("divisor", [2, 5, 20, -3])
def test_an_average_with_a_divisor_has_its_own_range(divisor: int) -> None:
    pool = torch.nn.AvgPool2d(3, 1, 1, divisor_override=divisor)
    x = torch.randn(2, 4, 9, 9, generator=torch.Generator().manual_seed(0))
    found = quantized(pool, (x,), Settings()).methods["forward"].module(check_guards=False)(x)
    assert signal_to_noise(pool(x), found) > 39


def test_a_global_average_has_its_own_range() -> None:
    pool = torch.nn.AdaptiveAvgPool2d(1)
    x = torch.randn(8, 8, 8, 64, generator=torch.Generator().manual_seed(0)).relu()
    found = quantized(pool, (x,), Settings()).methods["forward"].module(check_guards=False)(x)
    assert signal_to_noise(pool(x), found) > 45
