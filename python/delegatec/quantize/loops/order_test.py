# SPDX-License-Identifier: Apache-2.0
"""Quantization with samples of loops: recurrent layers, and scans of user code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim, ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.utils import _pytree as pytree

from delegatec.edge.control_flow import SCAN
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.frontend.export import export
from delegatec.frontend.model import Model
from delegatec.quantize.accuracy import float_caller
from delegatec.quantize.flow import quantize_model
from delegatec.quantize.loops.order import row, scheduled, stacked
from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import signal_to_noise

_COUNT: Final = 4


def _noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Recurrent(nn.Module):
    """A recurrent layer and a head."""

    def __init__(self, kind: type[nn.RNNBase] = nn.LSTM, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(16, 32, **options)  # type: ignore[call-arg, arg-type]
        self.head = nn.Linear((self.layer.proj_size or 32) * (2 if self.layer.bidirectional else 1), 8)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.layer(x)[0])
        return result


class Scanned(nn.Module):
    """A loop of user code."""

    def __init__(self, step: Callable[..., Any], *states: Tensor) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16, bias=False)
        self.step, self.states = step, states

    def forward(self, x: Tensor) -> Any:
        free = torch.relu(self.a(x[:2]))
        states = tuple(torch.zeros(1, 16) + each for each in self.states)
        return scan(lambda state, rows: self.step(self, state, rows, free), states, x)


def _quantized(
    module: nn.Module, *shape: int, shapes: Any = None, lengths: tuple[int, ...] = (), **settings: Any
) -> ExportedProgram:
    """Quantizes a module of one input; `lengths` are other first dimensions of samples."""
    sizes = [shape, *((length, *shape[1:]) for length in lengths)]
    samples = [((_noise(*each, seed=seed),), {}) for each in sizes for seed in range(_COUNT)]
    methods = export(Model(module.eval(), samples[0][0], dynamic_shapes=shapes))
    return quantize_model(methods, {"forward": samples}, Settings(**settings)).methods["forward"]


def _bodies(program: ExportedProgram) -> list[Graph]:
    _, *bodies = (each for each in program.graph_module.modules() if isinstance(each, GraphModule))
    return [each.graph for each in bodies]


def _floats(found: Any) -> Iterator[Tensor]:
    leaves = pytree.tree_leaves(found)
    return (leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point())


def _errors(module: nn.Module, program: ExportedProgram, *shape: int) -> list[float]:
    x = _noise(*shape, seed=_COUNT)
    with torch.no_grad():
        wanted, found = (_floats(each(x)) for each in (module, program.module(check_guards=False)))
        return [signal_to_noise(one, other) for one, other in zip(wanted, found, strict=True)]


def _dtypes(body: Graph) -> list[torch.dtype]:
    """Returns the dtypes of the results of a body."""
    return [each.meta["val"].dtype for each in body.output_node().args[0]]


def _parameters(values: Any, target: Any) -> list[Any]:
    return [tuple(each.args[1:]) for each in values if each.target is target]


# Module, number of quantized weights besides the head's, of loops, and the ratio of signal and error in dB.
_LAYERS: Final[dict[str, tuple[Callable[[], Recurrent], int, int, float]]] = {
    "lstm": (Recurrent, 2, 1, 29),
    "gru": (lambda: Recurrent(nn.GRU), 2, 1, 30),
    "rnn": (lambda: Recurrent(nn.RNN, bias=False), 2, 1, 29),
    "relu": (lambda: Recurrent(nn.RNN, nonlinearity="relu"), 2, 1, 29),
    "projected": (lambda: Recurrent(nn.LSTM, proj_size=24), 3, 1, 29),
    "both ways, twice": (lambda: Recurrent(nn.GRU, num_layers=2, bidirectional=True), 8, 4, 30),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", _LAYERS)
def test_a_value_of_a_body_has_one_range_for_all_steps(name: str) -> None:
    make, weights, loops, wanted = _LAYERS[name]
    module = make()
    program = _quantized(module, 9, 2, 16)
    stored = [key for key in program.state_dict if "weight" in key and key.endswith("_levels")]
    assert len(stored) == weights + 1
    calls = program.graph.find_nodes(op="call_function", target=SCAN)
    assert len(calls) == len(_bodies(program)) == loops
    assert all(each > wanted - 3 for each in _errors(module, program, 9, 2, 16))
    for call, body in zip(calls, _bodies(program), strict=True):
        count = len(call.args[1])
        # rows, state and results are int8, and state has the range of what a step returns
        assert {*_dtypes(body)} == {torch.int8}
        assert {each.meta["val"].dtype for each in (*call.args[1], *call.args[2])} == {torch.int8}
        inputs = body.find_nodes(op="placeholder")[:count]
        started = [_parameters(each.users, DEQUANTIZE)[0] for each in inputs]
        assert started == _parameters(body.output_node().args[0][:count], QUANTIZE)


def test_one_step_is_no_loop() -> None:
    module = Recurrent(nn.GRU)
    program = _quantized(module, 1, 2, 16)
    assert not _bodies(program)
    assert all(each > 18 for each in _errors(module, program, 1, 2, 16))


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"activation": "int16"}, 32),
        ({"ranges": "symmetric", "observer": "minmax"}, 27),
        ({"weight": "int4", "weight_scales": "tensor"}, 21),
    ],
)
def test_settings(settings: dict[str, Any], wanted: float) -> None:
    module = Recurrent()
    program = _quantized(module, 9, 1, 16, **settings)
    (body,) = _bodies(program)
    assert {*_dtypes(body)} == {torch.int16 if "activation" in settings else torch.int8}
    assert all(each > wanted - 3 for each in _errors(module, program, 9, 1, 16))


def test_a_length_that_varies() -> None:
    module = Recurrent(batch_first=True)
    methods = export(
        Model(module.eval(), (_noise(1, 6, 16),), dynamic_shapes={"x": {1: Dim("n", min=2, max=40)}})
    )
    samples = [((_noise(1, length, 16, seed=length),), {}) for length in (2, 9, 30)]
    program = quantize_model(methods, {"forward": samples}, Settings()).methods["forward"]
    (body,) = _bodies(program)
    assert {*_dtypes(body)} == {torch.int8}
    for length in (2, 40):
        assert all(each > 22 for each in _errors(module, program, 1, length, 16))


@pytest.mark.parametrize("activation", ["int8", "dynamic_int8"])
def test_both_parts_of_a_state_are_one_tensor(activation: str) -> None:
    class Started(Recurrent):
        def forward(self, x: Tensor) -> Tensor:
            start = torch.tanh(torch.cat([x[:1], x[1:2]], -1))
            result: Tensor = self.head(self.layer(x, (start, start))[0])
            return result

    program = _quantized(Started(), 9, 1, 16, activation=activation)
    assert len(_bodies(program)) == 1
    assert all(each > 25 for each in _errors(Started(), program, 9, 1, 16))


def test_what_stays_in_float() -> None:
    module = Recurrent()
    program = _quantized(module, 9, 1, 16, float_modules=("layer",))
    assert not _bodies(program) and all(each > 30 for each in _errors(module, program, 9, 1, 16))
    names = ("aten.add", "aten.tanh")
    program = _quantized(Recurrent(nn.RNN), 9, 1, 16, float_operators=names)
    (body,) = _bodies(program)
    (tanh,) = body.find_nodes(op="call_function", target=torch.ops.aten.tanh.default)
    assert tanh.args[0].target is torch.ops.aten.add.Tensor and {*_dtypes(body)} == {torch.int8}


def test_integers_at_the_boundary() -> None:
    module, x = Recurrent(), _noise(9, 1, 16, seed=_COUNT)
    methods = export(Model(module.eval(), (x,)))
    samples = {"forward": [((_noise(9, 1, 16, seed=seed),), {}) for seed in range(_COUNT)]}
    model = quantize_model(methods, samples, Settings(quantize_io=True))
    with torch.no_grad():
        assert signal_to_noise(module(x), float_caller(model, "forward", {})((x,))[0]) > 25
    assert model.inputs["forward"].keys() == {"x"} and model.outputs["forward"].keys() == {0}


def _plain(own: Scanned, state: Any, rows: Tensor, free: Tensor) -> Any:
    (h,) = state
    following = torch.tanh(own.a(rows) + own.b(h))
    return (following,), following * 2


def _counted(own: Scanned, state: Any, rows: Tensor, free: Tensor) -> Any:
    h, count = state
    following = torch.tanh(rows + own.b(h) * (1 + count.long().float() / 64))
    return (following, count + 1), following.clone()


def _unchanged(own: Scanned, state: Any, rows: Tensor, free: Tensor) -> Any:
    h, other = state
    return (torch.tanh(rows + own.b(h) * other), other.clone()), (rows.clone(), h.clone())


def _attentive(own: Scanned, state: Any, rows: Tensor, free: Tensor) -> Any:
    (h,) = state
    scores = torch.softmax((free * (own.b(h) + rows)).sum(-1, keepdim=True), 0)
    return (0.5 * torch.tanh(own.b(h) + rows) + (scores * free).sum(0),), scores.squeeze(-1)


def _nested(own: Scanned, state: Any, rows: Tensor, free: Tensor) -> Any:
    (h,) = state
    end, _ = scan(lambda k, each: (torch.tanh(k + each), k.clone()), h[0], rows)
    following = torch.tanh(own.a(rows) + own.b(h) + end)
    return (following,), following.clone()


_INT8: Final = torch.int8
# Step, states, dtypes of the results of a step, and the least ratio of signal and error of a result in dB.
_STEPS: Final[dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], list[torch.dtype], float]]] = {
    "plain": (_plain, (torch.zeros(1, 16),), [_INT8] * 2, 30),
    "counted": (_counted, (torch.zeros(1, 16), torch.zeros(1)), [_INT8] * 3, 22),
    "unchanged": (_unchanged, (torch.zeros(1, 16), _noise(1, 16)), [_INT8] * 4, 20),
    "attentive": (_attentive, (torch.ones(1, 16),), [_INT8] * 2, 18),
    "nested": (_nested, (torch.zeros(1, 16),), [_INT8] * 2, 26),
}


@pytest.mark.parametrize("name", _STEPS)
def test_scans_of_user_code(name: str) -> None:
    step, states, dtypes, least = _STEPS[name]
    module = Scanned(step, *states)
    program = _quantized(module, 7, 1, 16)
    body = _bodies(program)[0]
    assert _dtypes(body) == dtypes
    found = _errors(module, program, 7, 1, 16)
    assert len(found) == len(dtypes) and all(each > least for each in found), found


def test_the_order_of_a_graph_without_bodies() -> None:
    """What a loop reads comes before it, and what reads its results after it."""
    graph = Graph()
    x = graph.placeholder("x")
    first = graph.call_function(row, (x, 0))
    weight = graph.call_function(torch.neg, (x,))
    last = graph.call_function(stacked, (first, 0))
    reader = graph.call_function(torch.abs, (last,))
    step = graph.call_function(torch.add, (first, weight))
    other = graph.call_function(stacked, (step, 0))
    output = graph.output((reader, other))
    order = [each if isinstance(each, Node) else each.nodes for each in scheduled(graph.nodes)]
    assert order == [x, weight, (first, last, step, other), reader, output]
