# SPDX-License-Identifier: Apache-2.0
"""The search finds the layers whose quantization costs most: planted ones, and those of brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.accuracy import float_caller
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.search.objective import ErrorObjective
from delegatec.quantize.search.search import Found, _Searcher, check_searchable, search
from delegatec.quantize.search.sensitivity import noise_of, ranking
from delegatec.quantize.settings import Settings
from delegatec.quantize.switches.switched import Source, Switched
from delegatec.quantize.switches.units import Unit, Weight
from delegatec.samples.search import search_text

_SAMPLES = 6


class _Chain(nn.Module):
    """Linear layers with activations. The result of one has a channel as large as a factor says."""

    def __init__(self, outlier: int = 2, factor: float = 1000.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(7))
        with torch.no_grad():
            for layer in self.layers:
                nn.init.orthogonal_(layer.weight, 1.7)
            self.layers[outlier].weight[3] *= factor
            self.layers[outlier + 1].weight[:, 3] /= factor

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.nn.functional.silu(layer(x)) + 0.1
        return x


class _Blocks(nn.Module):
    """Residual blocks with norms and attention, of channels whose factors differ."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, dropout=0, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        with torch.no_grad():
            self.blocks[0].linear2.bias[5] += 30
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class _Images(nn.Module):
    """Separable convolutions, the second with a channel of large weights before a bounded activation."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        sizes = [3, 8, 8, 8]
        self.features = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(before, after, 1),
                    nn.BatchNorm2d(after),
                    nn.Hardswish(),
                    nn.Conv2d(after, after, 3, padding=1, groups=after),
                    nn.ReLU(),
                )
                for before, after in itertools.pairwise(sizes)
            )
        )
        with torch.no_grad():
            self.features[1][3].weight[2] *= 400
            self.features[2][0].weight[:, 2] /= 400
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


class _Recurrent(nn.Module):
    """An LSTM whose weight for the hidden state has a column as large as a factor says."""

    def __init__(self, factor: float = 4000.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.head = nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 4)
        with torch.no_grad():
            self.layer.weight_hh_l0[:, 3] *= factor

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0])


_INPUTS = {_Chain: (4, 16), _Blocks: (1, 6, 16), _Images: (1, 3, 8, 8), _Recurrent: (1, 6, 16)}


def _samples(module: nn.Module) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(_INPUTS[type(module)], generator=generator) for _ in range(_SAMPLES)]


def _searched(module: nn.Module, maximum_loss: float, **settings: Any) -> tuple[Found, list[Switched]]:
    """Returns the result of a search, and the switches of the model."""
    samples = _samples(module)
    methods = export(Model(module.eval(), (samples[0],)))
    chosen, kept = Settings(**settings), list[Switched]()
    calls: Any = {"forward": [((x,), {}) for x in samples]} if chosen.is_static else {}

    def quantized(marks: frozenset[int], keep: Any) -> Any:
        def both(switched: Switched) -> None:
            kept.append(switched)
            keep(switched)

        return quantize_model(methods, calls, replace(chosen, float_calls=marks), keep=keep and both)

    objective = ErrorObjective([(x,) for x in samples])
    found = search(methods["forward"], quantized, objective, maximum_loss, lambda stage: None)
    return found, kept


def test_the_weights_of_a_recurrent_layer_are_layers() -> None:
    found, _ = _searched(_Recurrent(), 3e-5, activation="dynamic_int8")
    (layer,) = found.search.in_float
    assert (layer.module, layer.operator) == ("layer", "aten.linear of weight_hh_l0")
    assert found.search.layers == 3 and found.search.chosen.integer_operations < 0.6
    (_, *lines) = search_text(found.search)
    assert "  float  layer: aten.linear of weight_hh_l0, noise" in lines[-1]
    assert "layer.weight_hh_l0" in found.model.methods["forward"].state_dict


def test_calls_of_a_loop_are_layers() -> None:
    module = _Recurrent(1.0)
    whole, (switched,) = _searched(module, 1e6)
    assert {each.operator for each in switched.units} == {
        *("aten.linear", "aten.add", "aten.mul", "aten.sigmoid", "aten.tanh", "aten.transpose"),
    }
    found, _ = _searched(module, 0.3 * (1 - whole.search.chosen.value))
    assert 0 < len(found.search.in_float) < len(switched.units)


@pytest.mark.parametrize("outlier", [0, 5])
def test_a_planted_outlier_is_found(outlier: int) -> None:
    found, _ = _searched(_Chain(outlier), 0.01)
    # Its value is in integers unless the layer, its activation, the sum and the next layer are all in float.
    assert found.search.in_float[0].module == f"layers.{outlier}"
    assert found.search.in_float[-1].module == f"layers.{outlier + 1}"
    assert [layer.operator for layer in found.search.in_float] == [
        "aten.linear",
        "aten.silu",
        "aten.add",
        "aten.linear",
    ]
    whole = found.search.points[0]
    assert (
        found.search.baseline - whole.value > 0.05 > 0.01 > found.search.baseline - found.search.chosen.value
    )
    assert found.search.chosen.weight_bytes == whole.weight_bytes + 2 * (3 * 16 * 16 - 4 * 16)
    assert {str(n.meta["nn_module_stack"].popitem()[1][0]) for n in _linears(found)} == {
        f"layers.{index}" for index in range(7) if index not in (outlier, outlier + 1)
    }


def _linears(found: Found) -> list[torch.fx.Node]:
    """Returns the linear layers with quantized weights."""
    nodes = found.model.methods["forward"].graph.nodes
    layers = [node for node in nodes if node.target is torch.ops.aten.linear.default]
    return [node for node in layers if "dequantize" in str(node.args[1].target)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (_Blocks, {"inner": "int16", "weight": "int4"}),
        (_Images, {"weight_scales": "tensor", "quantize_io": True}),
        (_Recurrent, {}),
        (_Images, {"activation": "dynamic_int8", "weight_scales": "tensor"}),
        (_Blocks, {"activation": "float", "weight": "int4"}),
    ],
)
def test_switches_compute_like_the_quantized_model(module: type[nn.Module], settings: dict[str, Any]) -> None:
    found, (switched, *_) = _searched(module(), 1e6, **settings)
    (method,) = found.model.methods.values()
    assert method is not None and not found.search.in_float
    samples = _samples(module())
    methods = export(Model(module().eval(), (samples[0],)))
    calls: Any = {"forward": [((x,), {}) for x in samples]} if Settings(**settings).is_static else {}
    count = len(switched.units)
    for chosen in ({0, count // 2}, set(range(count // 2, count))):
        in_float = frozenset(chosen) - switched.fixed
        marks = frozenset().union(*(switched.units[index].calls for index in in_float))
        model = quantize_model(methods, calls, replace(Settings(**settings), float_calls=marks))
        call = float_caller(model, "forward", {})
        expected, actual = [call((x,)) for x in samples], [switched.outputs((x,), in_float) for x in samples]
        # Values halfway between two may become either, and shared ranges are narrower: at most 1/64 measured.
        exact = [switched.outputs((x,), frozenset(range(count)) - switched.fixed) for x in samples]
        assert noise_of(expected, actual) <= max(1e-9, noise_of(exact, expected) / 20)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("module", "settings", "share"),
    [
        (_Chain, {}, 0.01),
        (_Blocks, {}, 0.3),
        (_Images, {"weight_scales": "tensor"}, 0.3),
        (_Recurrent, {}, 0.3),
        (_Chain, {"activation": "dynamic_int8", "weight": "int4", "group_size": 8}, 0.5),
    ],
)
def test_no_more_layers_than_brute_force_finds(
    module: type[nn.Module], settings: dict[str, Any], share: float
) -> None:
    whole, _ = _searched(module(), 1e6, **settings)
    maximum_loss = share * (1 - whole.search.chosen.value)
    found, (switched, *_) = _searched(module(), maximum_loss, **settings)
    samples = [(x,) for x in _samples(module())]
    exact = [switched.outputs(x, frozenset(range(len(switched.units)))) for x in samples]

    def loss(in_float: frozenset[int]) -> float:
        return noise_of(exact, [switched.outputs(x, in_float) for x in samples])

    # Greedy: each layer is tried alone, and the one with the least loss stays in float, until it fits.
    greedy, tried = frozenset[int](), 1
    while loss(greedy) > maximum_loss:
        left = frozenset(range(len(switched.units))) - greedy
        greedy |= {min(left, key=lambda unit: (loss(greedy | {unit}), unit))}
        tried += len(left)
    assert greedy and 0 < len(found.search.in_float) <= 1.5 * len(greedy)
    assert found.search.evaluations <= 2 + 2 * (1 + len(switched.units).bit_length()) + 8 + 4
    assert found.search.baseline - found.search.chosen.value <= maximum_loss


def test_inputs_and_outputs_stay_in_integers() -> None:
    found, (switched, *_) = _searched(_Chain(3), 0.1, quantize_io=True)
    # the first layer with its activation, and the last sum
    assert found.search.layers == len(switched.units) - 2
    assert found.search.in_float
    assert not {layer.module for layer in found.search.in_float} & {"layers.0"}


def test_a_loss_that_no_choice_meets() -> None:
    with pytest.raises(DelegatecError, match="DC139") as raised:
        _searched(_Chain(), 1e-9, quantize_io=True)
    (problem,) = raised.value.diagnostics
    assert (
        "of 21 layers in float, 1 - error/signal is " in problem.message
        and problem.expected == "at most 1e-09 less"
    )


def test_no_result_is_measured_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all layers in float that may be, there are no more to add."""
    quantized = list[frozenset[int]]()
    module, samples = _Chain(), _samples(_Chain())
    methods = export(Model(module.eval(), (samples[0],)))
    calls: Any = {"forward": [((x,), {}) for x in samples]}

    def quantize(marks: frozenset[int], keep: Any) -> Any:
        quantized.append(marks)
        settings = Settings(quantize_io=True, float_calls=marks)
        return quantize_model(methods, calls, settings, keep=keep)

    monkeypatch.setattr(_Searcher, "_bisected", lambda _, order: len(order.steps))
    monkeypatch.setattr(_Searcher, "_returned", lambda _, in_float, errors: in_float)
    monkeypatch.setattr(_Searcher, "_suffices", lambda self, in_float, _: self._values.setdefault(in_float))
    monkeypatch.setattr(_Searcher, "_unmet", lambda _: ValueError("unmet"))
    with pytest.raises(ValueError, match="unmet"):
        search(methods["forward"], quantize, ErrorObjective([(x,) for x in samples]), 0.1, lambda _: None)
    assert len(quantized) == 2 and quantized[0] == frozenset() != quantized[1]


def test_weights_that_are_larger_in_integers_have_no_negative_price() -> None:
    """Rows of one column: a scale takes more bytes than is saved."""
    weights = [Weight.of("narrow", 64, "int8", 64), Weight.of("small", 2, "int8", 2)]
    units = [Unit(frozenset({index}), "", "", "", 1, (each,)) for index, each in enumerate(weights)]
    sources = [Source(frozenset({index})) for index in range(2)]
    switched: Any = SimpleNamespace(units=units, sources=sources, operations=2, fixed=frozenset())
    assert ranking(switched, [0.5, 0.1]).steps == (frozenset({0}), frozenset({1}))
    single: Any = SimpleNamespace(units=units[1:], sources=sources[:1], operations=1, fixed=frozenset())
    assert ranking(single, [0.5]).steps == (frozenset({0}),)


def test_the_same_result_twice() -> None:
    first, second = (_searched(_Chain(), 0.01)[0] for _ in range(2))
    assert first.search == second.search
    assert str(first.model.methods["forward"].graph) == str(second.model.methods["forward"].graph)


def test_text() -> None:
    found, _ = _searched(_Chain(), 0.01)
    lines = list(search_text(found.search))
    assert lines[0].startswith("1 - error/signal over 6 samples: 1.0000 in float, ")
    assert lines[1].startswith("in float: 4 of 21 layers; in integers: 73.0% of operations; ")
    assert [line for line in lines if line.endswith("chosen")]


class _Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.cache.add_(x)
        return self.cache + 1


def test_state_and_several_methods_are_refused() -> None:
    cached = export(Model(_Cache(), (torch.ones(4),)))
    plain = export(Model(nn.Linear(4, 4), (torch.ones(1, 4),)))
    check_searchable(plain)
    with pytest.raises(DelegatecError, match="DC134") as raised:
        check_searchable({**cached, "other": plain["forward"]})
    assert [each.message for each in raised.value.diagnostics] == [
        "maximum_loss: the model has the methods forward, other",
        'maximum_loss: the model writes to its state, such as "cache"',
    ]
