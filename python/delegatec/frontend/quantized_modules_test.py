# SPDX-License-Identifier: Apache-2.0
"""Older and unfinished quantization is refused with a remedy; reference modules of PT2E are exported."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn
from torch.ao.quantization.quantize_fx import (
    _convert_to_reference_decomposed_fx,
    convert_fx,
    convert_to_reference_fx,
    prepare_fx,
)

from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.testing import assert_computes
from delegatec.frontend.export import export
from delegatec.frontend.model import Model

X = torch.rand(3, 8)


def _prepared() -> torch.fx.GraphModule:
    layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    prepared: torch.fx.GraphModule = prepare_fx(layers, quantization.get_default_qconfig_mapping("x86"), (X,))
    prepared(X)
    return prepared


class Stored(nn.Module):
    """A quantized tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.quantize_per_tensor(torch.rand(8, 8), 0.1, 0, torch.qint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.dequantize()


OLDER: dict[str, Callable[[], nn.Module]] = {
    "dynamic": lambda: quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 4)), {nn.Linear}),
    "fx": lambda: convert_fx(_prepared()),
    "reference": lambda: convert_to_reference_fx(_prepared()),
    "tensor": Stored,
}


@pytest.mark.parametrize("name", OLDER)
def test_older_quantization(name: str) -> None:
    with pytest.raises(DelegatecError) as raised:
        export(Model(OLDER[name](), (X,)))
    (problem,) = raised.value.diagnostics
    assert problem.code == "DC119" and "older quantization" in problem.message
    assert "torchao" in problem.help


def _of_quanto(**settings: object) -> nn.Module:
    """A layer with the names of optimum-quanto 0.2.7."""
    kind = type("QLinear", (nn.Linear,), {"__module__": "optimum.quanto.nn.qlinear"})
    layer: nn.Module = kind(8, 4)
    vars(layer).update(frozen=True, activation_qtype=None)
    vars(layer).update(settings)
    return layer


class _Bytes(torch.nn.Parameter):
    """A weight of eight bits."""


_Bytes.__module__ = "optimum.quanto.tensor.weights.qbytes"


def test_layers_of_optimum_quanto() -> None:
    of_bytes = _of_quanto()
    of_bytes.weight = _Bytes(torch.rand(4, 8))
    for layer in (of_bytes, _of_quanto(frozen=False), _of_quanto(activation_qtype="qint8")):
        with pytest.raises(DelegatecError) as raised:
            export(Model(nn.Sequential(layer), (X,)))
        (problem,) = raised.value.diagnostics
        assert problem.code == "DC119" and "optimum-quanto" in problem.message and "torchao" in problem.help
    assert list(export(Model(nn.Sequential(_of_quanto()), (X,)))) == ["forward"]


def test_a_model_that_is_not_converted() -> None:
    with pytest.raises(DelegatecError) as raised:
        export(Model(_prepared(), (X,)))
    (problem,) = raised.value.diagnostics
    assert problem.code == "DC119" and "not converted" in problem.message and "convert_pt2e" in problem.help


def test_reference_modules_of_decomposed_operators() -> None:
    module = _convert_to_reference_decomposed_fx(_prepared())
    expected = module(X)
    (program,) = export(Model(module, (X,))).values()
    edge = to_edge(program)
    assert_computes(edge, expected, X)
    # the quantized values of weights, not the weights that the graph quantizes
    assert {constant.dtype for constant in edge.constants.values() if constant.numel() > 64} == {torch.int8}
