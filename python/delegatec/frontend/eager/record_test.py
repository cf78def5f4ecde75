# SPDX-License-Identifier: Apache-2.0
"""Exported programs agree with the user's module, or an error says how they differ."""

from __future__ import annotations

import datetime
import os
import random
import time
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export, export_with_samples
from delegatec.frontend.model import Method, Model
from delegatec.samples.recorded import RecordedSamples

X = torch.tensor([1.0, 2.0])


def one() -> float:
    return 1.0


class Calls(torch.nn.Module):
    """Calls a function, with a parameter and a buffer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        return self.function(self, *inputs, **keywords)

    def reset(self, x: torch.Tensor) -> torch.Tensor:
        self.total.copy_(x)
        return self.total * 1


def recorded(model: Model, count: int = 2) -> RecordedSamples:
    return export_with_samples(model, samples=count).samples


def code(model: Model) -> str:
    try:
        export(model)
    except DelegatecError as error:
        (problem,) = error.diagnostics
        return problem.code
    return ""


def test_the_example_and_a_variation() -> None:
    samples = recorded(Model(Calls(lambda self, x, k: {"y": x * self.weight, "k": k}), (X, 5)))
    example, varied = samples.calls
    assert (example.method, example.name, varied.name) == ("forward", "example", "seed 1")
    assert torch.equal(example.inputs[0], X) and example.inputs[1] == 5
    assert [path for path, _ in example.outputs] == ["['y']", "['k']"]
    assert torch.equal(example.outputs[0][1], torch.tensor([3.0, 8.0])) and example.outputs[1][1] == 5
    assert not torch.equal(varied.inputs[0], X)
    assert torch.equal(varied.outputs[0][1], varied.inputs[0] * torch.tensor([3.0, 4.0]))


def test_calls_in_a_row_share_state() -> None:
    def add(self: Any, x: torch.Tensor) -> Any:
        self.total += x
        return self.total.clone()

    first, second = recorded(Model(Calls(add), (X,))).calls
    assert torch.equal(second.outputs[0][1], first.outputs[0][1] + second.inputs[0])


def test_methods_share_state() -> None:
    def add(self: Any, x: torch.Tensor) -> Any:
        self.total += x
        return self.total.clone()

    model = Model(Calls(add), (X,), methods={"reset": Method("reset", (X * 10,))})
    names = [(call.method, call.name) for call in recorded(model).calls]
    assert names == [("forward", "example"), ("reset", "example"), ("forward", "seed 1"), ("reset", "seed 1")]


def test_written_inputs() -> None:
    def write(self: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        y.add_(x)
        return x * 2

    example = recorded(Model(Calls(write), (X, X))).calls[0]
    assert [*example.written] == [1] and torch.equal(example.written[1], X * 2)


def test_hooks_are_those_of_forward() -> None:
    module = Calls(lambda self, x: x * self.weight)
    module.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    module.register_forward_hook(lambda module, inputs, result: result * 2)
    forward, reset = recorded(Model(module, (X,), methods={"reset": Method("reset", (X,))})).calls[:2]
    assert torch.equal(forward.outputs[0][1], (X + 1) * torch.tensor([3.0, 4.0]) * 2)
    assert torch.equal(reset.outputs[0][1], X)


def test_sizes_at_both_bounds_and_between() -> None:
    model = Model(
        Calls(lambda self, x: x.sum(0)),
        (torch.ones(4, 2),),
        dynamic_shapes={"inputs": ({0: Dim("n", min=2, max=9)},)},
    )
    sizes = [call.inputs[0].shape[0] for call in recorded(model).calls]
    assert sizes[0] == 4 and min(sizes) == 2 and max(sizes) == 9 and len(sizes) > 3


def test_one_tensor_as_two_inputs() -> None:
    _, varied = recorded(Model(Calls(lambda self, x, y: x + 2 * y), (X, X))).calls
    x, y = varied.inputs
    assert not torch.equal(x, y) and torch.equal(varied.outputs[0][1], x + 2 * y)


@pytest.mark.parametrize("where", ["argument", "list", "keyword", "buffer"])
def test_a_weight_as_an_input(where: str) -> None:
    module = Calls(lambda self, x: (x[0] if isinstance(x, list) else x) * self.weight + self.total)
    own = module.total if where == "buffer" else module.weight
    args: dict[str, Any] = {
        "argument": ((own,),),
        "buffer": ((own,),),
        "list": (([own],),),
        "keyword": ((), {"x": own}),
    }
    program = export(Model(module, *args[where]))["forward"]
    assert len(program.graph_signature.user_inputs) == 1
    (user_input,) = program.graph_signature.user_inputs
    assert next(node for node in program.graph.nodes if node.name == user_input).users


@pytest.mark.parametrize(
    "chance",
    [
        lambda self, x: x * random.random(),
        lambda self, x: x * float(numpy.random.rand()),
        lambda self, x: x * int.from_bytes(os.urandom(4), "little"),
        lambda self, x: x * time.time(),
        lambda self, x: x * time.monotonic_ns(),
        lambda self, x: x * monotonic(),
        lambda self, x: x + datetime.datetime.now().timestamp(),
    ],
    ids=["random", "numpy", "urandom", "time", "monotonic", "name of a clock", "datetime"],
)
def test_chance(chance: Callable[..., Any]) -> None:
    assert code(Model(Calls(chance), (X,))) == "DC129"


def test_a_clock_that_replaces_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(Calls(lambda self, x: x * one()), (X,))
    assert code(model) == ""
    monkeypatch.setitem(globals(), "one", time.time)
    assert code(model) == "DC129"


def test_random_operators_are_part_of_the_program() -> None:
    assert recorded(Model(Calls(lambda self, x: x + torch.rand(2)), (X,))).calls == ()


def test_code_for_export_only() -> None:
    def differs(self: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_exporting() else x * 3

    with pytest.raises(
        DelegatecError, match=r"DC128.*for example, output 0 is 2, not 3 at \[0\]|is 4, not 6"
    ):
        export(Model(Calls(differs), (X,)))


def test_variations_that_the_module_rejects_are_left_out() -> None:
    def strict(self: Any, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting() and not bool((x == X).all()):
            raise ValueError("only the example")
        return x * 2

    assert [call.name for call in recorded(Model(Calls(strict), (X,))).calls] == ["example"]


def test_sizes_that_the_module_rejects() -> None:
    def positions(self: Any, x: torch.Tensor) -> Any:
        return x + torch.nn.functional.embedding(torch.arange(x.shape[0]), torch.ones(8, 2))

    with pytest.raises(DelegatecError, match=r"DC113: forward\(\) fails for sizes .*9.*IndexError"):
        sized = {"inputs": ({0: Dim("n", min=2, max=9)},)}
        export(Model(Calls(positions), (torch.ones(4, 2),), dynamic_shapes=sized))


def test_a_module_that_ends_its_process() -> None:
    def end(self: Any, x: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            os._exit(0)
        return x

    assert code(Model(Calls(end), (X,))) == "DC128"


def test_no_comparison() -> None:
    module = Calls(lambda self, x: x * 2 if torch.compiler.is_exporting() else x * 3)
    assert export_with_samples(Model(module, (X,)), samples=0).samples.calls == ()


def test_more_calls() -> None:
    assert len(recorded(Model(Calls(lambda self, x: x * 2), (X,)), 5).calls) == 5


def test_containers_of_local_types() -> None:
    class Pair(NamedTuple):
        first: torch.Tensor
        second: torch.Tensor

    def add(self: Any, pair: Pair) -> torch.Tensor:
        return pair.first + 2 * pair.second

    example, varied = recorded(Model(Calls(add), (Pair(X, X),))).calls
    assert torch.equal(example.outputs[0][1], X * 3)
    assert torch.equal(varied.outputs[0][1], varied.inputs[0] + 2 * varied.inputs[1])


class Products(torch.nn.Module):
    """A chain of matrix products of about 2 * size**3 operations, which may count its calls."""

    def __init__(self, counts: bool = False) -> None:
        super().__init__()
        self.counts = counts
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.counts:
            self.calls += 1
        return x @ x * (1 + self.calls)


@pytest.mark.parametrize(
    ("size", "count", "calls"), [(8, 2, 2), (1200, 2, 2), (1900, 2, 1), (1900, 3, 3)], ids=str
)
def test_expensive_calls_are_few(size: int, count: int, calls: int) -> None:
    assert len(recorded(Model(Products(), (torch.ones(size, size),)), count).calls) == calls


def test_state_of_an_expensive_model() -> None:
    assert code(Model(Products(counts=True), (torch.ones(1900, 1900),))) == "DC124"


def test_attention_and_dropout_are_not_random() -> None:
    def attend(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return torch.nn.functional.dropout(y, 0.5, training=False)

    assert len(recorded(Model(Calls(attend), (torch.rand(1, 2, 4, 8),))).calls) == 2


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_without_dropout_are_not_random(layer: Any) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.calls = layer(3, 4), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.layer(x)[0] * self.calls  # type: ignore[no-any-return]

    example = (torch.rand(5, 1, 3),)
    assert len(recorded(Model(layer(3, 4, 2, dropout=0.5).eval(), example)).calls) == 2
    assert code(Model(Counting(), example)) == "DC124"


class Rounded(torch.nn.Module):
    """Layers whose operands are rounded at run time, as dynamic quantization does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            scale = x.abs().amax(-1, keepdim=True) / 127
            x = layer((x / scale).round() * scale)
        return x


def test_weights_that_a_call_creates_and_replaces_are_not_random() -> None:
    """torch initializes them by random numbers, which no result follows from."""

    def function(module: Any, x: torch.Tensor) -> torch.Tensor:
        layer = torch.nn.Linear(2, 2, bias=False)
        module.held = getattr(module, "held", 0) + x
        weights = {"weight": torch.diag(module.weight)}
        return torch.func.functional_call(layer, weights, x) + module.held

    assert code(Model(Calls(function), (X,))) == "DC124"
    model = Model(Calls(lambda module, x: torch.rand(2).mul_(x)), (X,))
    assert recorded(model).calls == ()


def test_the_last_bits_of_products_do_not_matter() -> None:
    """Other products round some operands to another value, which does not count as a difference."""
    x = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
    assert code(Model(Rounded().eval(), (x,))) == ""
