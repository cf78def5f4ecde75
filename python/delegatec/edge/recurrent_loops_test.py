# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers as loops compute what eager mode does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from delegatec.edge.control_flow import SCAN, calls
from delegatec.edge.program import EdgeProgram
from delegatec.edge.recurrent_loops import RECURRENT, loop_recurrent_layers
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten


def _noise(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def _looped(
    module: nn.Module, *inputs: Tensor, most_copied: int | None = 0, **options: object
) -> EdgeProgram:
    program = edge(module, *inputs, preserve=RECURRENT | {aten.linear.default}, **options)
    assert loop_recurrent_layers(program, most_copied)
    for part in program.walk():
        verify(part)
    assert not loop_recurrent_layers(program, most_copied)
    return program


def _layers(kind: type[nn.RNNBase], *sizes: int, **options: object) -> nn.Module:
    torch.manual_seed(0)
    return kind(*sizes, **options).eval().requires_grad_(False)  # type: ignore[arg-type]


_CASES: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "gru": (partial(_layers, nn.GRU, 3, 4), 1),
    "lstm": (partial(_layers, nn.LSTM, 3, 4, batch_first=True), 1),
    "rnn": (partial(_layers, nn.RNN, 3, 4, nonlinearity="relu", bias=False), 1),
    "two_layers": (partial(_layers, nn.LSTM, 3, 4, num_layers=2), 2),
    "both_directions": (partial(_layers, nn.GRU, 3, 4, num_layers=2, bidirectional=True), 4),
    "projection": (partial(_layers, nn.LSTM, 3, 4, proj_size=2, bidirectional=True), 2),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_loop_for_each_layer_and_direction(name: str) -> None:
    make, count = _CASES[name]
    module, x = make(), _noise(5, 6, 3)
    program = _looped(module, x)
    found = calls(program)
    assert [call.target for call in found] == [SCAN] * count
    # a step reads its weights, and its operands are state and row alone
    assert all(
        body.constants and not call.args[3] for body, call in zip(program.bodies.values(), found, strict=True)
    )
    assert_computes(program, module(x), x)


def test_states_and_a_batch_that_varies() -> None:
    class Resumed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = _layers(nn.LSTM, 3, 4)

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            found: tuple[Tensor, tuple[Tensor, Tensor]] = self.layer(x, (h, c))
            return found

    batch = Dim("batch", min=1, max=8)
    inputs = _noise(5, 2, 3), _noise(1, 2, 4, seed=1), _noise(1, 2, 4, seed=2)
    program = _looped(Resumed(), *inputs, dynamic_shapes=({1: batch}, {1: batch}, {1: batch}))
    for count in (1, 2, 7):
        inputs = _noise(5, count, 3), _noise(1, count, 4, seed=1), _noise(1, count, 4, seed=2)
        assert_computes(program, Resumed()(*inputs), *inputs)


@pytest.mark.parametrize(("length", "is_looped"), [(8, False), (9, True)])
def test_few_bytes_are_copied(length: int, is_looped: bool) -> None:
    module, x = _layers(nn.GRU, 3, 4), _noise(length, 1, 3)
    program = _looped(module, x, most_copied=8 * 3 * 4 * 4 * 4)
    assert bool(calls(program)) is is_looped
    assert (called(program).count(aten.linear.default) == 1) is is_looped
    assert_computes(program, module(x), x)


def test_one_step_is_no_loop() -> None:
    module, x = _layers(nn.GRU, 3, 4), _noise(1, 2, 3)
    program = _looped(module, x)
    assert not calls(program)
    assert_computes(program, module(x), x)


def test_unrolled() -> None:
    module, x = _layers(nn.GRU, 300, 300), _noise(3, 1, 300)
    program = _looped(module, x, most_copied=None)
    assert not calls(program)
    assert_computes(program, module(x), x, atol=1e-5)


def test_a_layer_in_a_body() -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList(_layers(nn.GRU, 3, 4, bias=False).parameters())

        def forward(self, x: Tensor) -> Tensor:
            weights, start = [*self.weights], x.new_zeros(1, 2, 4)

            def layer(y: Tensor) -> Tensor:
                return torch.gru(y, start, weights, False, 1, 0.0, False, False, False)[0]

            result: Tensor = torch.cond(x.sum() > 0, layer, lambda y: layer(-y), (x,))
            return result

    program = edge(Chosen(), _noise(5, 2, 3), preserve=RECURRENT | {aten.linear.default})
    for part in list(program.walk()):
        loop_recurrent_layers(part, 0)
    assert [call.target for part in program.walk() for call in calls(part)].count(SCAN) == 2
    for x in (torch.ones(5, 2, 3), -torch.ones(5, 2, 3)):
        assert_computes(program, Chosen()(x), x)


def test_lines_and_handles_are_those_of_the_layer() -> None:
    program = _looped(_layers(nn.GRU, 3, 4), _noise(5, 6, 3))
    (body,) = program.bodies.values()
    handles = {node.meta["debug_handle"] for node in body.graph.nodes if node.op == "call_function"}
    (call,) = calls(program)
    assert handles == {call.meta["debug_handle"]} and body.origins
