# SPDX-License-Identifier: Apache-2.0
"""Whole numbers, which casts to integers and comparisons tell from values that are slightly smaller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import Function
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise

X = 3 * torch.randn(8, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("settings", [{}, {"ranges": "symmetric"}, {"activation": "int16"}], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x.round().int(), id="rounded"),
        pytest.param(lambda x: (x.floor() * 3 - 1).long(), id="a product"),
        pytest.param(lambda x: torch.cat([x.ceil(), x.trunc()]).abs().to(torch.int8), id="joined"),
        pytest.param(lambda x: (x > 0).float().sum(1).int(), id="a count"),
        pytest.param(lambda x: x.sign().clamp(min=0).bool(), id="signs"),
        pytest.param(lambda x: torch.where(x > 1, 1.0, -2.0).int(), id="constants"),
        pytest.param(lambda x: (x > 0).float().masked_fill(x > 2, 7).flip(0).int(), id="filled"),
    ],
)
def test_integers_of_whole_numbers_are_exact(function: Callable[[Tensor], Tensor], settings: Any) -> None:
    x = X.round() + 0.25  # far from jumps
    module = Function(lambda x: (function(x), x * 1.0))
    found = quantized(module, (x,), Settings(**settings)).methods["forward"].module(check_guards=False)(x)
    assert torch.equal(found[0], module(x)[0])


@pytest.mark.parametrize(
    ("function", "scale"),
    [
        pytest.param(torch.round, 1.0, id="rounded"),
        pytest.param(lambda x: (x * 100).round(), None, id="a range beyond that of int8"),
        pytest.param(lambda x: torch.cat([x.round(), x]), None, id="joined with other values"),
        pytest.param(lambda x: x.round() * 0.5, None, id="halves"),
        pytest.param(lambda x: torch.complex(x, x).abs().flip(0), None, id="magnitudes of complex numbers"),
        pytest.param(
            lambda x: torch.nn.functional.avg_pool1d(x.round(), 2), None, id="averages of whole numbers"
        ),
    ],
)
def test_the_scale_of_the_result(function: Callable[[Tensor], Tensor], scale: float | None) -> None:
    module = Function(function)
    program = quantized(module, (X,), Settings()).methods["forward"]
    scales = [node.args[1] for node in program.graph.nodes if "quantize_per_tensor" in node.name]
    assert (scales[-1] == 1.0) == (scale == 1.0)
    assert signal_to_noise(module(X), program.module(check_guards=False)(X)) > 15
