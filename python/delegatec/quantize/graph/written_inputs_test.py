# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


class Writes(nn.Module):
    """Reads an input, and writes to it."""

    def __init__(self, write: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: Tensor) -> Tensor:
        found = x.sigmoid()
        self.write(x)
        return found


@pytest.mark.parametrize(
    ("write", "activation"),
    [
        pytest.param(lambda x: x.add_(x), "int8", id="a sum"),
        pytest.param(lambda x: x.add_(x), "int16", id="a sum of int16"),
        pytest.param(lambda x: x.copy_(x.sin()), "int8", id="a copy"),
        pytest.param(lambda x: x[:2].neg_(), "int8", id="a part"),
        pytest.param(lambda x: x.fill_(0.5), "int8", id="a number"),
    ],
)
def test_the_caller_sees_what_is_written(write: Callable[[Tensor], Any], activation: Any) -> None:
    module = Writes(write)
    program = quantized(module, (X.clone(),), Settings(activation=activation)).methods["forward"]
    exact, found = X.clone(), X.clone()
    module(exact)
    program.module(check_guards=False)(found)
    assert signal_to_noise(exact, found) > 30
