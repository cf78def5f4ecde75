# SPDX-License-Identifier: Apache-2.0
"""Calls that eager mode rejects, or that are only meaningful in training, are not lowered."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization.fx._decomposed

from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge

X = torch.ones(2, 4)
F = torch.nn.functional
quantized = torch.ops.quantized_decomposed
QUANTIZED = torch.arange(12, dtype=torch.int8).reshape(3, 4)


class Function(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4).half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, self.linear, lambda x: x.clone(), (x,))
        return result


def codes(module: torch.nn.Module, x: torch.Tensor = X, train: bool = False) -> list[str]:
    exported = torch.export.export(module.train(train), (x,))
    try:
        to_edge(exported)
    except DelegatecError as error:
        return [problem.code for problem in error.diagnostics]
    return []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
@pytest.mark.parametrize("layer", [torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Bilinear(4, 4, 2)])
def test_dtypes_that_eager_mode_rejects(layer: torch.nn.Module, dtype: torch.dtype) -> None:
    layer = copy.deepcopy(layer).half()
    module = Function(lambda x: layer(x, x) if isinstance(layer, torch.nn.Bilinear) else layer(x))
    with pytest.raises(RuntimeError):
        module(X.to(dtype))
    try:
        found = codes(module, X.to(dtype))
    except RuntimeError:  # torch.export rejects it as well
        return
    assert found == ["DC125"]


def test_bodies_of_control_flow_are_checked() -> None:
    assert codes(Branches()) == ["DC125"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x.half(),
        lambda x: x.half() * torch.tensor(3, dtype=torch.int64),
        lambda x: torch.where(x > 0, x, x.double()),
        lambda x: F.embedding(x.long(), torch.ones(5, 2)),
        lambda x: F.layer_norm(x.bfloat16(), (4,), torch.ones(4), torch.zeros(4)),
        lambda x: x.gather(1, x.long()).half().add_(x),
        lambda x: torch.cat([x, x.half()]),
    ],
)
def test_dtypes_that_eager_mode_mixes(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    function(X)
    assert codes(Function(function)) == []


def test_each_call_is_named() -> None:
    linear = torch.nn.Linear(4, 4).half()
    assert codes(Function(lambda x: linear(x) + linear(x.double()))) == ["DC125", "DC125"]


@pytest.mark.parametrize(
    "layer",
    [
        torch.nn.Dropout(0.5),
        torch.nn.Dropout2d(0.5),
        torch.nn.AlphaDropout(0.5),
        torch.nn.FeatureAlphaDropout(0.5),
        torch.nn.RReLU(),
        torch.nn.BatchNorm1d(4),
    ],
)
def test_training_mode(layer: torch.nn.Module) -> None:
    assert codes(layer) == []
    assert codes(layer, train=True) == ["DC118"]


def test_normalization_without_statistics_is_not_training() -> None:
    assert codes(torch.nn.BatchNorm1d(4, track_running_stats=False), train=True) == []


def test_a_program_is_converted_once() -> None:
    exported = torch.export.export(torch.nn.Linear(4, 2), (X,))  # whose "input" a copy renames
    spare = copy.deepcopy(exported)
    to_edge(exported)
    with pytest.raises(DelegatecError, match="DC415: the exported program was lowered before"):
        to_edge(exported)
    assert to_edge(spare)


def per_channel(scales: int, zeros: int | None = None) -> Function:
    ones, points = torch.ones(scales), torch.zeros(scales if zeros is None else zeros, dtype=torch.int64)
    operator = quantized.dequantize_per_channel
    return Function(lambda x: x + operator(QUANTIZED, ones, points, 1, -128, 127, torch.int8)[:2])


def per_tensor(scale: float) -> Function:
    bounds = scale, 0, -128, 127, torch.int8
    return Function(
        lambda x: quantized.dequantize_per_tensor(quantized.quantize_per_tensor(x, *bounds), *bounds)
    )


@pytest.mark.parametrize(
    ("module", "found"),
    [
        (per_tensor(0.0), ["DC127", "DC127"]),
        (per_tensor(-0.5), ["DC127", "DC127"]),
        (per_tensor(float("nan")), ["DC127", "DC127"]),
        (per_tensor(float("inf")), ["DC127", "DC127"]),
        (per_tensor(0.5), []),
        (per_channel(3), ["DC127", "DC127"]),
        (per_channel(4, 3), ["DC127"]),
        (per_channel(4, 1), ["DC127"]),
        (per_channel(1, 1), []),
        (per_channel(4), []),
    ],
)
def test_scales_that_do_not_fit(module: torch.nn.Module, found: list[str]) -> None:
    if not found:
        assert module(X).isfinite().all()
    assert codes(module) == found
