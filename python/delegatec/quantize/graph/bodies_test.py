# SPDX-License-Identifier: Apache-2.0
"""Quantization without samples of recurrent layers, and of layers in the bodies of control flow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim, ExportedProgram
from torch.fx import Graph, GraphModule

from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.settings import Settings
from delegatec.quantize.switches.switched import Switched
from delegatec.quantize.testing import signal_to_noise

DYNAMIC: Final[dict[str, Any]] = {"activation": "dynamic_int8"}


class Recurrent(nn.Module):
    """A recurrent layer and a head."""

    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(16, 32, **options)  # type: ignore[call-arg, arg-type]
        self.head = nn.Linear(self.layer.weight_ih_l0.shape[0] and self._width(), 8)

    def _width(self) -> int:
        return (self.layer.proj_size or 32) * (2 if self.layer.bidirectional else 1)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layer(x)[0])
        return result


def _noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _quantized(module: nn.Module, *inputs: Tensor, shapes: Any = None, **settings: Any) -> ExportedProgram:
    methods = export(Model(module.eval(), inputs, dynamic_shapes=shapes))
    return quantize_model(methods, {}, Settings(**settings)).methods["forward"]


def _graphs(program: ExportedProgram) -> Iterator[Graph]:
    """Yields the graph of a program and of its bodies."""
    modules = program.graph_module.modules()
    yield from (module.graph for module in modules if isinstance(module, GraphModule))


def _count(graph: Graph, name: str) -> int:
    return sum(name in str(node.target) for node in graph.nodes if node.op == "call_function")


def _error(module: nn.Module, program: ExportedProgram, *inputs: Tensor) -> float:
    with torch.no_grad():
        return signal_to_noise(module(*inputs), program.module(check_guards=False)(*inputs))


# Module, number of weights that are quantized without the head, and of loops.
_LAYERS: Final[dict[str, tuple[Callable[[], Recurrent], int, int]]] = {
    "lstm": (lambda: Recurrent(nn.LSTM), 2, 1),
    "gru": (lambda: Recurrent(nn.GRU, batch_first=True), 2, 1),
    "rnn": (lambda: Recurrent(nn.RNN, bias=False), 2, 1),
    "relu": (lambda: Recurrent(nn.RNN, nonlinearity="relu"), 2, 1),
    "projected": (lambda: Recurrent(nn.LSTM, proj_size=24), 3, 1),
    "both ways, twice": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True), 8, 4),
}
# Settings -> the signal to noise ratio that was found for an LSTM, in dB.
_SETTINGS: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "8da8w": (DYNAMIC, 46.6),
    "int8": ({"activation": "float"}, 50.7),
    "int8, one scale": ({"activation": "float", "weight_scales": "tensor"}, 49.3),
    "float16": ({"activation": "float", "weight": "float16"}, 75.6),
    "8da4w, groups": ({**DYNAMIC, "weight": "int4", "group_size": 8}, 25.4),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", _LAYERS)
@pytest.mark.parametrize("settings", ["8da8w", "int8"])
def test_a_loop_reads_each_weight_once(name: str, settings: str) -> None:
    make, weights, loops = _LAYERS[name]
    options, _ = _SETTINGS[settings]
    module, x = make(), _noise(5, 2, 16)
    program = _quantized(module, x, **options)
    stored = [key for key, value in program.state_dict.items() if value.dtype is torch.int8]
    assert len(stored) == weights + 1 and all(each.endswith("_levels") for each in stored)
    assert not [key for key in program.state_dict if "weight" in key.rpartition(".")[2][-8:]]
    outer, *bodies = _graphs(program)
    assert _count(outer, "scan") == len(bodies) == loops
    # inputs of all time steps are one product, and so is the head
    assert _count(outer, "aten.linear") == loops + 1
    for body in bodies:
        assert _count(body, "dequantize") == (2 if settings == "8da8w" else 1) * _count(body, "aten.linear")
    assert _error(module, program, x) > 33


@pytest.mark.parametrize("settings", _SETTINGS)
def test_errors(settings: str) -> None:
    options, wanted = _SETTINGS[settings]
    module, x = Recurrent(nn.LSTM), _noise(9, 1, 16)
    assert _error(module, _quantized(module, x, **options), x) == pytest.approx(wanted, abs=1.5)


def test_one_step_is_no_loop() -> None:
    module, x = Recurrent(nn.GRU), _noise(1, 2, 16)
    program = _quantized(module, x, **DYNAMIC)
    assert len([*_graphs(program)]) == 1
    assert _error(module, program, x) > 33


def test_a_length_that_varies() -> None:
    module = Recurrent(nn.LSTM, batch_first=True)
    program = _quantized(module, _noise(1, 6, 16), shapes={"x": {1: Dim("n", min=1, max=20)}}, **DYNAMIC)
    assert sum(value.dtype is torch.int8 for value in program.state_dict.values()) == 3
    for length in (1, 20):
        assert _error(module, program, _noise(1, length, 16)) > 33


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(kind: type[nn.RNNCellBase]) -> None:
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.cell = kind(16, 32)  # type: ignore[call-arg]

        def forward(self, x: Tensor) -> Tensor:
            once = self.cell(x)
            twice = self.cell(x, once)
            return twice[0] + twice[1] if isinstance(twice, tuple) else twice

    module, x = Cells(), _noise(3, 16)
    program = _quantized(module, x, **DYNAMIC)
    assert sum(value.dtype is torch.int8 for value in program.state_dict.values()) == 2
    assert _error(module, program, x) > 33


def test_a_layer_stays_in_float() -> None:
    x = _noise(5, 2, 16)
    program = _quantized(Recurrent(nn.LSTM), x, **DYNAMIC, float_modules=("layer",))
    assert [key for key, value in program.state_dict.items() if value.dtype is torch.int8] == [
        "head.weight_levels"
    ]
    assert _count(next(_graphs(program)), "aten.lstm") == 1
    kept = _quantized(Recurrent(nn.LSTM), x, **DYNAMIC, float_operators=("aten.lstm",))
    assert _count(next(_graphs(kept)), "aten.lstm") == 1


def test_layers_of_which_one_stays_in_float() -> None:
    module, x = nn.Sequential(Recurrent(nn.GRU), nn.Linear(8, 16), Recurrent(nn.GRU)), _noise(5, 2, 16)
    program = _quantized(module, x, **DYNAMIC, float_modules=("0.layer",))
    names = {key.rpartition("_")[0] for key, value in program.state_dict.items() if value.dtype is torch.int8}
    assert names == {
        "0.head.weight",
        "1.weight",
        "2.layer.weight_ih_l0",
        "2.layer.weight_hh_l0",
        "2.head.weight",
    }
    assert _error(module, program, x) > 30


def test_a_layer_stays_in_float_between_integers() -> None:
    module, x = Recurrent(nn.LSTM).eval(), _noise(30, 2, 16)
    settings = Settings(float_modules=("layer",))
    program = quantize_model(export(Model(module, (x,))), {"forward": [((x,), {})]}, settings).methods[
        "forward"
    ]
    (graph,) = _graphs(program)
    assert _count(graph, "aten.lstm") == 1 and _count(graph, "aten.linear") == 1
    assert {key for key, value in program.state_dict.items() if value.dtype is torch.int8} == {
        "head.weight_levels"
    }
    assert _error(module, program, x) > 30


class Bodies(nn.Module):
    """A scan that also reads its first state, and branches that share a weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 8)
        self.start = nn.Parameter(torch.randn(2, 32))

    def forward(self, x: Tensor) -> Tensor:
        def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(self.layer(state) + row)
            return state, state + self.start

        _, rows = scan(step, self.start.clone(), x)

        def first(y: Tensor) -> Tensor:
            return self.other(y)

        def second(y: Tensor) -> Tensor:
            return self.layer(self.other(y).relu())

        y: Tensor = torch.cond(x.sum() > 0, first, second, (rows,))
        result: Tensor = self.head(y)
        return result


def test_layers_in_bodies_of_control_flow() -> None:
    module, x = Bodies(), _noise(4, 2, 32)
    program = _quantized(module, x, **DYNAMIC)
    stored = {key for key, value in program.state_dict.items() if value.dtype is torch.int8}
    assert stored == {"layer.weight_levels", "other.weight_levels", "head.weight_levels"}
    assert "other.weight" not in program.state_dict
    for sign in (1, -1):
        values = x.abs() * sign
        assert _error(module, program, values) > 30


class Started(nn.Module):
    """A scan whose two states start with one tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(32, 32)
        self.register_buffer("start", torch.zeros(2, 32))

    def forward(self, x: Tensor) -> Tensor:
        def step(state: tuple[Tensor, Tensor], row: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
            one, other = state
            return (torch.tanh(self.layer(other)), one + row), one - other

        start = self.start
        assert isinstance(start, Tensor)
        result: Tensor = scan(step, (start.clone(), start.clone()), x)[1]
        return result


def test_states_that_start_equal_stay_apart() -> None:
    module, x = Started(), _noise(4, 2, 32)
    assert _error(module, _quantized(module, x, **DYNAMIC), x) > 30


def test_layers_of_loops_have_their_operations() -> None:
    found: list[Switched] = []
    methods = export(Model(Recurrent(nn.LSTM).eval(), (_noise(5, 2, 16),)))
    quantize_model(methods, {}, Settings(**DYNAMIC), keep=found.append)
    (switched,) = found
    units = {unit.weights[0].name: (unit.module, unit.operations) for unit in switched.units}
    assert units == {
        "layer.weight_ih_l0": ("layer", 5 * 2 * 16 * 128),
        "layer.weight_hh_l0": ("layer", 5 * 2 * 32 * 128),
        "head.weight": ("head", 5 * 2 * 32 * 8),
    }
    assert sum(operations for _, operations in units.values()) < switched.operations < 80_000
    (x,) = (_noise(5, 2, 16),)
    exact, both, one = (switched.outputs((x,), in_float)[0] for in_float in (range(3), (), (0, 2)))
    assert signal_to_noise(exact, both) < signal_to_noise(exact, one) < 70
