# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import Function
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings


def _quantized(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    methods = export(Model(Function(lambda x: function(x * 1.0)), (x,)))
    made = quantize_model(methods, {"forward": [((x,), {})]}, Settings()).methods
    result: Tensor = made["forward"].module()(x)
    return result


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
    assert torch.equal(_quantized(function, x), function(x))
