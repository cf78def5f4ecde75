# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import Function
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized

MASK = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0])
SIGNS = torch.tensor([-0.3, 0.0, 0.7, -1.5])
WIDE = torch.tensor([0.0, 1.7, 3.0, 5.5, 9.0])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        pytest.param(lambda x: x == 1, MASK, id="ones of a mask"),
        pytest.param(lambda x: x != 1, MASK, id="others of a mask"),
        pytest.param(lambda x: x >= 1, MASK, id="at least one"),
        pytest.param(lambda x: x > 0, MASK, id="above zero"),
        pytest.param(lambda x: x < 1, MASK, id="below one"),
        pytest.param(lambda x: x.sign() == -1, SIGNS, id="signs"),
        pytest.param(
            lambda x: x.sign() == 1, torch.tensor([-0.3, 0.0, 0.7, -1.5, -2.0]), id="positive signs"
        ),
        pytest.param(lambda x: x.clamp(max=6) >= 6, WIDE, id="clamped"),
        pytest.param(lambda x: x.round() == 3, WIDE, id="rounded"),
        pytest.param(lambda x: x > 100, WIDE, id="above the range"),
        pytest.param(lambda x: x >= 100, WIDE, id="not above the range"),
        pytest.param(lambda x: x > -3, WIDE, id="below the range"),
        pytest.param(lambda x: x == 9.5, WIDE, id="no value"),
        pytest.param(lambda x: x < torch.inf, WIDE, id="infinity"),
        pytest.param(lambda x: x == torch.nan, WIDE, id="NaN"),
    ],
)
def test_a_value_compares_as_in_float(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    module = Function(lambda x: function(x * 1.0))
    graph = quantized(module, (x,), Settings()).methods["forward"].module(check_guards=False)
    assert torch.equal(graph(x), module(x))
