# SPDX-License-Identifier: Apache-2.0
"""Control flow in a delegate: results of eager mode, on both sides of each condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop

from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.testing import compile_module, graph_of, operators, run_case
from delegatec.backends.common.testing import Call, Compiled, check_results, eager, floats
from delegatec.edge import print_program

SPECIFICATION: Final = "TOSA-1.0+FP+cf"
X: Final = floats(2, 4)
Y: Final = floats(2, 4, seed=1)


def loop(condition: Callable[..., Tensor], body: Callable[..., Any], state: tuple[Tensor, ...]) -> Any:
    run: Any = while_loop
    return run(condition, body, state)


class Images(nn.Module):
    """A branch with a convolution, whose weights are constants of the branch."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        def then(h: Tensor) -> Tensor:
            found: Tensor = self.second(h).relu() + h
            return found

        picked: Tensor = torch.cond(x.sum() > 0, then, lambda h: h.sigmoid(), (self.first(x),))
        return picked.mean((2, 3))


class Recurrence(nn.Module):
    """A loop with a counter, a layer, and a value that it only reads."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        def more(i: Tensor, h: Tensor) -> Tensor:
            return (i < 4) & (h.abs().sum() < 100)

        def step(i: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, torch.tanh(self.layer(h)) + y

        count, state = loop(more, step, (torch.zeros((), dtype=torch.int64), x))
        return count, state


def nested(depth: int) -> Callable[[Tensor], Tensor]:
    """Returns a function with nested conditions."""

    def level(number: int) -> Callable[[Tensor], Tensor]:
        def inner(x: Tensor) -> Tensor:
            found: Tensor = torch.cond(x.sum() > number, level(number - 1), lambda x: x + number, (x,))
            return found

        return inner if number else lambda x: x.sin()

    return level(depth)


def _swapped(x: Tensor, y: Tensor) -> Any:
    return torch.cond(
        x.sum() > 0, lambda x, y: (x.clone(), y.clone()), lambda x, y: (y.clone(), x.clone()), (x, y)
    )


_CASES: Final[dict[str, tuple[Any, list[tuple[Tensor, ...]]]]] = {
    "several results": (
        lambda x: torch.cond(x.sum() > 0, lambda x: (x > 0, x.argmax()), lambda x: (x < 0, x.argmin()), (x,)),
        [(X,), (-X,)],
    ),
    "one result is unused": (
        lambda x, y: torch.cond(
            x.sum() > 0, lambda x, y: (x + 1, y.sin()), lambda x, y: (x - 1, y.cos()), (x, y)
        )[0],
        [(X, Y), (-X, Y)],
    ),
    "operands are returned": (_swapped, [(X, Y), (-X, Y)]),
    "no operands": (
        lambda x: torch.cond(x.sum() > 0, lambda: torch.zeros(3), lambda: torch.ones(3), ()),
        [(X,), (-X,)],
    ),
    "a condition of one dimension": (
        lambda p, x: torch.cond(p, lambda x: x.sin(), lambda x: x.cos(), (x,)),
        [(torch.tensor([True]), X), (torch.tensor([False]), X)],
    ),
    "one after another": (
        lambda x: nested(1)(nested(1)(x) * 0.5),
        [(X,), (X + 1,)],
    ),
    "nested": (nested(5), [(X,), (X + 1,)]),
    "rewritten": (
        lambda x: torch.cond(
            x.sum() > 0, lambda x: x.softmax(1), lambda x: torch.nn.functional.layer_norm(x, (4,)), (x,)
        ),
        [(X,), (-X,)],
    ),
    "float16": (
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x.half(),)),
        [(X,), (-X,)],
    ),
    "no iteration": (
        lambda i, x: loop(lambda i, x: i.sum() < 5, lambda i, x: (i + 1, x * 1.5), (i, x)),
        [(torch.tensor([0]), X), (torch.tensor([7]), X)],
    ),
    "a condition in a loop": (
        lambda x: loop(lambda x: x.sum() < 3, lambda x: (nested(1)(x).abs() + 0.5,), (x,))[0],
        [(X,), (X + 1,)],
    ),
    "convolutions": (Images(), [(floats(1, 3, 8, 8),), (-floats(1, 3, 8, 8),)]),
    "a layer": (Recurrence(), [(X, Y)]),
}


@pytest.mark.parametrize("name", _CASES)
def test_results(name: str) -> None:
    function, inputs = _CASES[name]
    module = function if isinstance(function, nn.Module) else Call(function)
    compiled = run_case(module, inputs[0], specification=SPECIFICATION)
    for args in inputs[1:]:
        wanted = list(eager(module, args))
        check_results(compiled(*args), wanted, [value.dtype for value in wanted], 2e-5, 2e-6)


def _sines(x: Tensor) -> Tensor:
    picked: Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    return picked


def test_branches_are_regions() -> None:
    graph = graph_of(compile_module(Call(_sines), (X,), specification=SPECIFICATION))
    assert [each.name for each in graph.operations][-1] == "COND_IF"
    names = list(graph.operations[-1].attributes.values())
    assert names == list(graph.bodies)
    bodies = [[each.name for each in body.operations] for body in graph.bodies.values()]
    assert bodies == [["SIN"], ["COS"]]


def test_operands_that_do_not_change_are_state() -> None:
    compiled = compile_module(Recurrence(), (X, Y), specification=SPECIFICATION)
    graph = graph_of(compiled)
    (call,) = (each for each in graph.operations if each.name == "WHILE_LOOP")
    condition, body = graph.bodies.values()
    assert len(call.inputs) == len(call.outputs) == len(body.inputs) == len(body.outputs) == 3
    assert [str(value) for value in condition.outputs] == ["BOOL[]"]


def test_the_body_is_a_separate_program() -> None:
    compiled = compile_module(Call(_sines), (X,), specification=SPECIFICATION)
    text = print_program(compiled.delegates[0].original_program)
    assert "cond(" in text and "aten.sin.default" in text and "aten.cos.default" in text
    assert not compiled.program.bodies


def _left(compiled: Compiled, operator: str) -> str:
    (message,) = (message for name, _, message in compiled.left if name == operator)
    return message


def _check(compiled: Compiled, function: Callable[[Tensor], Tensor]) -> None:
    for x in (X, -X):
        check_results(compiled(x), [function(x)], [torch.float32], 2e-5, 2e-6)


def test_other_specifications_delegate_bodies_separately() -> None:
    compiled = compile_module(Call(_sines), (X,), specification="TOSA-1.0+FP")
    assert "COND_IF needs the extension cf" in _left(compiled, "cond")
    names = [[each.name for each in read_blob(memoryview(blob)).operations] for blob in compiled.blobs()]
    assert names[-2:] == [["SIN"], ["COS"]]
    _check(compiled, _sines)


def test_one_unsupported_call_in_a_body() -> None:
    def function(x: Tensor) -> Tensor:
        picked: Tensor = torch.cond(
            x.sum() > 0, lambda x: (x.double() * 2).float().exp(), lambda x: x.sin() + 1, (x,)
        )
        return picked

    compiled = compile_module(Call(function), (X,), specification=SPECIFICATION)
    assert "in its body is not supported: dtype float64" in _left(compiled, "cond")
    assert "SIN" in [each.name for each in read_blob(memoryview(compiled.blobs()[-1])).operations]
    _check(compiled, function)


def test_nesting_beyond_the_limit() -> None:
    compiled = compile_module(Call(nested(6)), (X,), specification=SPECIFICATION)
    assert _left(compiled, "cond") == "control flow nested 6 deep; the limit is 5"
    _check(compiled, nested(6))


def test_scalars_are_not_values() -> None:
    def function(x: Tensor) -> Any:
        return loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, x))  # type: ignore[arg-type]

    compiled = compile_module(Call(function), (X,), specification=SPECIFICATION)
    assert "is an operand or a result" in _left(compiled, "while_loop")


def test_dead_code_of_a_body() -> None:
    def function(x: Tensor) -> Tensor:
        picked: Tensor = torch.cond(
            x.sum() > 0, lambda x: (x.sin(), x @ torch.ones(4, 4))[0], lambda x: x.cos(), (x,)
        )
        return picked

    compiled = compile_module(Call(function), (X,), specification=SPECIFICATION)
    assert "MATMUL" not in operators(compiled)
