# SPDX-License-Identifier: Apache-2.0
"""Wrong names and weights are reported together, for all methods of a model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import QuantizedModel, quantize_model
from delegatec.quantize.inputs import Sample
from delegatec.quantize.settings import Settings


class Head(nn.Module):
    """A layer, and another function after it."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.function(self.layer(x))
        return result


def _methods() -> dict[str, ExportedProgram]:
    """Returns two methods: one calls a softmax, the other a hyperbolic tangent."""
    functions = {"first": nn.Softmax(-1), "second": nn.Tanh()}
    x = torch.arange(8.0).reshape(2, 4)
    return {name: export(Model(Head(each), (x,)))["forward"] for name, each in functions.items()}


def _quantized(methods: dict[str, ExportedProgram], settings: Settings) -> QuantizedModel:
    sample: Sample = ((torch.arange(8.0).reshape(2, 4),), {})
    return quantize_model(methods, {name: [sample] for name in methods}, settings)


def test_all_mistakes_are_reported_in_one_run() -> None:
    methods = _methods()
    methods["second"].state_dict["layer.weight"][0, 0] = torch.nan
    wrong = Settings(float_modules=("head", "layer", "tail"), float_operators=("aten.conv2d", "aten.tanh"))
    with pytest.raises(DelegatecError) as error:
        _quantized(methods, wrong)
    assert [(found.code, found.message) for found in error.value.diagnostics] == [
        ("DC130", 'float_modules: the model has no module "head"'),
        ("DC130", 'float_modules: the model has no module "tail"'),
        ("DC130", 'float_operators: the model has no operator "aten.conv2d"'),
        ("DC134", 'the weight "layer.weight" contains NaN'),
    ]


def test_names_of_one_method_are_accepted() -> None:
    """Each operator is in one of the methods only, as in a prefill and a decoding step."""
    settings = Settings(float_operators=("aten.softmax", "aten.tanh"))
    result = _quantized(_methods(), settings)
    for method, name in (("first", "softmax"), ("second", "tanh")):
        nodes = result.methods[method].graph.nodes
        (call,) = [node for node in nodes if name in str(node.target)]
        assert not [user for user in call.users if "quantize" in str(user.target)]
