# SPDX-License-Identifier: Apache-2.0
"""Rows of zeros, such as padding, next to others: their norms are infinite but for epsilon."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


class Function(nn.Module):
    """A function of a product, so that its operand is a quantized value."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, kept: Tensor) -> Tensor:
        return self.function(x * kept)


_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: F.layer_norm(x, (32,), eps=1e-12),
    "rms_norm": lambda x: F.rms_norm(x, (32,), eps=1e-12),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "reciprocal": lambda x: x * torch.reciprocal(x.sum(-1, keepdim=True) - 1e-9),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("settings", [Settings(), Settings(observer="minmax"), Settings(inner="int16")])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_rows_of_zeros_do_not_lose_the_others(name: str, settings: Settings) -> None:
    torch.manual_seed(0)
    x, kept = torch.rand(8, 32) + torch.arange(8.0).reshape(8, 1) / 8, torch.ones(8, 1)
    module = Function(_FUNCTIONS[name])
    without = quantized(module, (x, kept), settings).methods["forward"].module(check_guards=False)
    kept = torch.cat([torch.ones(6, 1), torch.zeros(2, 1)])
    padded = quantized(module, (x, kept), settings).methods["forward"].module(check_guards=False)
    with torch.no_grad():
        exact = module(x, kept)
        found = padded(x, kept)
        usual = signal_to_noise(module(x, torch.ones(8, 1))[:6], without(x, torch.ones(8, 1))[:6])
        assert torch.equal(found[6:], torch.zeros(2, 32))
        assert signal_to_noise(exact[:6], found[:6]) > min(usual, 30) - 6
        assert usual > 20


class Masked(nn.Module):
    """A function whose infinite and undefined results are replaced by zeros."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        found = self.function(x, count)
        return torch.where(count > 0, found, 0.0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x * 2 / n,
        lambda x, n: torch.log(n) * (x * 2),
        lambda x, n: torch.log(n) * x.abs(),
        lambda x, n: torch.sqrt(n * 2 - 1) * x,
    ],
    ids=["quotient", "logarithm", "logarithm of one sign", "root"],
)
def test_masked_elements_do_not_widen_ranges(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    x, count = torch.randn(8, 4), torch.tensor([3.0, 1.0, 0.0, 4.0])
    x[2] = 0
    module = Masked(function)
    program = quantized(module, (x, count), Settings()).methods["forward"].module(check_guards=False)
    with torch.no_grad():
        assert signal_to_noise(module(x, count), program(x, count)) > 30
