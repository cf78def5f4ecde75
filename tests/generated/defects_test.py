# SPDX-License-Identifier: Apache-2.0
"""The comparison finds losses between the user's module and the program: each row loses something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
import torch

from tests.generated import outcomes as stages
from tests.generated import quantizing
from tests.generated.examples import model_of
from tests.generated.outcomes import RIGHT, WRONG, outcomes
from tests.generated.program import FORWARD, STEP, Input, Node, Program
from tests.generated.quantizing import INT8
from tests.generated.targets import PORTABLE

X0: Final = Input("x0", torch.float32, (4, 4))
X1: Final = Input("x1", torch.float32, (4, 4), seed=1)
S0: Final = Input("self.s0", torch.float32, (4, 4), "zeros")
S1: Final = Input("self.s1", torch.float32, (4, 4), "ones")
W: Final = Input("self.c0", torch.float32, (4, 4), seed=2)
ROWS: Final = Input("x0", torch.float32, (4, 4), dynamic=(0,))


def _program(inputs: tuple[Input, ...], rows: tuple[str, ...], **more: Any) -> Program:
    """Returns a program of statements and then an expression, its output."""
    nodes = [Node("", row, {}) for row in rows[:-1]]
    return Program(inputs, (*nodes, Node("v0", rows[-1], {})), ("v0",), **more)


class Defect(NamedTuple):
    """A program, and what is compiled instead.

    Attributes:
        user: the program.
        compiled: the output of a compiler with a defect.
        words: part of the difference.
    """

    user: Program
    compiled: Program
    words: str


def _defect(
    inputs: tuple[Input, ...], user: tuple[str, ...], compiled: tuple[str, ...], words: str
) -> Defect:
    return Defect(_program(inputs, user), _program(inputs, compiled), words)


_STEP: Final = (
    Node("", "self.s0.add_(x0)", {}),
    Node("v0", "x0 + self.s0", {}),
    Node("v1", "x0 * 2 - self.s0", {}, STEP),
)
_SHARED: Final = Program((X0, S0), _STEP, ("v0",), ("v1",))
DEFECTS: Final = {
    "lost state": _defect(
        (X0, S0),
        ("self.s0.add_(x0)", "x0 + self.s0"),
        ("x0 + (self.s0 + x0)",),
        "call 1 of forward, output 0",
    ),
    "an initial value that is one step too far": _defect(
        (X0, S0),
        ("self.s0.add_(1)", "x0 + self.s0"),
        ("self.s0.add_(1)", "x0 + self.s0 + 1"),
        "call 0 of forward, output 0",
    ),
    "merged buffers": _defect(
        (X0, S0, S1),
        ("self.s0.add_(x0)", "self.s1.sub_(1)", "self.s0 * self.s1"),
        ("self.s0.add_(x0)", "self.s0.sub_(1)", "self.s0 * self.s0"),
        "call 0 of forward, output 0",
    ),
    "a second method without the first one's state": Defect(
        _SHARED,
        replace(_SHARED, nodes=(*_STEP[:2], Node("v1", "x0 * 2", {}, STEP))),
        "call 1 of step, output 0",
    ),
    "an ignored alias": Defect(
        _program((X0, X1), ("x0 * 2 + x1",), aliases={"x1": "x0"}),
        _program((X0, X1), ("x0 * 2 + x0",)),
        "call 1 of forward, output 0",
    ),
    "a constant that an input replaces": Defect(
        _program((X0, W), ("x0 @ self.c0",), aliases={"x0": "self.c0"}),
        _program((X0, W), ("x0 @ x0",)),
        "call 1 of forward, output 0",
    ),
    "a wrong branch": _defect(
        (ROWS,),
        ("x0 * 2 if x0.shape[0] % 2 == 0 else x0 - 1",),
        ("x0 * 2",),
        "call 2 of forward, output 0",
    ),
    "a lost write to an input": _defect(
        (X0,), ("x0.add_(1)", "x0 * 2"), ("(x0 + 1) * 2",), "call 0 of forward, input 0 after it"
    ),
    "an output that is not the input": _defect(
        (X0,), ("x0.add_(1)", "x0"), ("x0.add_(1)", "x0 - 1"), "call 0 of forward, output 0"
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_loss_between_module_and_program_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user, compiled, words = DEFECTS[name]
    assert [each.kind for each in outcomes(compiled, (PORTABLE,))] == [RIGHT]
    monkeypatch.setattr(stages, "model_of", lambda _: model_of(compiled))
    (found,) = outcomes(user, (PORTABLE,))
    assert (found.kind, words in found.text) == (WRONG, True), found.text


QUANTIZED: Final = {
    "lost state": (
        ("self.s0.add_(x0)", "x0 @ self.c0 + self.s0"),
        ("x0 @ self.c0 + self.s0 + x0",),
    ),
    "merged buffers": (
        ("self.s0.add_(x0)", "self.s1.sub_(x0 * 0.25)", "x0 @ self.c0 + self.s0 - self.s1"),
        ("self.s0.add_(x0)", "self.s0.sub_(x0 * 0.25)", "x0 @ self.c0 + self.s0 - self.s0"),
    ),
    "a lost layer": (("x0 @ self.c0",), ("x0 @ self.c0.abs()",)),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_a_loss_in_quantization_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = (X0, S0, S1, W)
    user, compiled = (_program(inputs, rows) for rows in QUANTIZED[name])
    target = f"{PORTABLE} {INT8}"
    assert [each.kind for each in outcomes(user, (target,))] == [RIGHT]
    quantize = quantizing.quantize_model

    def other(_: Mapping[str, Any], *arguments: Any) -> Any:
        return quantize(stages.export(model_of(compiled)), *arguments)

    monkeypatch.setattr(quantizing, "quantize_model", other)
    (found,) = outcomes(user, (target,))
    assert found.kind == WRONG and "dB" in found.text and FORWARD in compiled.methods, found.text


RIGHT_INT8: Final = {
    "a state that is wider in later calls": ("t = self.s1.tril(2)", "self.s1.add_(x0).mul_(9)", "t"),
    "probabilities next to 1": ("F.binary_cross_entropy((x0 * 9).sigmoid(), (x0 * 9).sigmoid())",),
}


@pytest.mark.parametrize("name", RIGHT_INT8)
def test_what_quantization_may_do(name: str) -> None:
    (found,) = outcomes(_program((X0, S1), RIGHT_INT8[name]), (f"{PORTABLE} {INT8}",))
    assert found.kind == RIGHT, found.text
