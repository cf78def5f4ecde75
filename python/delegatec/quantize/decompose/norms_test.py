# SPDX-License-Identifier: Apache-2.0
"""Batch norms after layers with other readers, and after layers that share weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


class Normed(nn.Module):
    """A layer, and two norms.

    Args:
        layer: a layer of 8 features.
        norms: two norms of them.
    """

    def __init__(self, layer: nn.Module, norms: type[nn.modules.batchnorm._BatchNorm]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.first, self.second = layer, norms(8), norms(8)
        for norm in (self.first, self.second):
            nn.init.normal_(norm.running_mean)  # type: ignore[arg-type]
            nn.init.uniform_(norm.running_var, 0.5, 2)  # type: ignore[arg-type]


class Read(Normed):
    """Two results of a layer, one of them normed."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        result: Tensor = self.first(x) + x
        return result


class Shared(Normed):
    """One layer twice, with a norm for each."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.layer(self.first(self.layer(x)).relu()))
        return result


class Plain(Normed):
    """A layer and its norm."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.first(self.layer(x))
        return result


class Computed(Normed):
    """A layer and a norm whose weight depends on the input."""

    def forward(self, x: Tensor) -> Tensor:
        weight, norm = x.transpose(0, 1).flatten(1).mean(1), self.first
        return F.batch_norm(self.layer(x), norm.running_mean, norm.running_var, weight, norm.bias)


class ComputedBias(Normed):
    """A layer whose bias depends on the input, and its norm."""

    def forward(self, x: Tensor) -> Tensor:
        layer = F.conv2d if x.dim() == 4 else F.linear
        bias = x.transpose(0, 1).flatten(1).mean(1)
        result: Tensor = self.first(layer(x, self.layer.weight, bias))
        return result


_LAYERS: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "convolution": (lambda: nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d, (2, 8, 6, 6)),
    "linear": (lambda: nn.Linear(8, 8), nn.BatchNorm1d, (5, 8)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("activation", ["int8", "dynamic_int8"])
@pytest.mark.parametrize("name", _LAYERS)
@pytest.mark.parametrize("model", [Read, Shared, Plain])
def test_each_norm_is_that_of_the_model(model: type[Normed], name: str, activation: str) -> None:
    make, kind, shape = _LAYERS[name]
    torch.manual_seed(1)
    module, x = model(make(), kind).eval(), torch.randn(shape)
    program = quantized(module, (x,), Settings(activation=activation)).methods["forward"]
    with torch.no_grad():
        assert signal_to_noise(module(x), program.module(check_guards=False)(x)) > 30
    norms = [node for node in program.graph.nodes if "batch_norm" in str(node.target)]
    assert bool(norms) == (activation == "dynamic_int8" and model is not Plain)


@pytest.mark.parametrize("activation", ["int8", "dynamic_int8"])
@pytest.mark.parametrize("name", _LAYERS)
@pytest.mark.parametrize("model", [Computed, ComputedBias])
def test_computed_weights(model: type[Normed], name: str, activation: str) -> None:
    make, kind, shape = _LAYERS[name]
    module, x = model(make(), kind).eval(), torch.randn(shape)
    program = quantized(module, (x,), Settings(activation=activation)).methods["forward"]
    with torch.no_grad():
        assert signal_to_noise(module(x), program.module(check_guards=False)(x)) > 30


@pytest.mark.parametrize("is_buffer", [True, False])
def test_norms_are_folded_into_weights_that_are_no_parameters(is_buffer: bool) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weight = torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(0))
            if is_buffer:
                self.register_buffer("weight", weight)
            else:
                self.weight = weight
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.norm(F.conv2d(x, self.weight))
            return found

    x = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    (program,) = quantized(Layer(), (x,), Settings()).methods.values()
    assert signal_to_noise(Layer().eval()(x), program.module(check_guards=False)(x)) > 30
