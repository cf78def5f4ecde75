# SPDX-License-Identifier: Apache-2.0
"""Patterns match the arithmetic that they read like, in any order of operands, and nothing else."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.builder import Builder
from delegatec.edge.patterns.formulas import cast, reciprocal, rsqrt, sqrt
from delegatec.edge.patterns.match import Match
from delegatec.edge.patterns.pattern import ANY, Argument, Call, Const, Pattern, Scalar, Through, Var
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import edge

aten = torch.ops.aten
X, Y = torch.rand(2, 4) + 1, torch.rand(2, 4) + 1
ROW = torch.tensor([1.0, 2.0, 3.0, 4.0])
x, y = Var("x"), Var("y")
ONLY_X = {"x": "args_0"}
XY = {"x": "args_0", "y": "args_1"}


def is_view(node: torch.fx.Node) -> bool:
    return node.target is aten.view.default


def matches(pattern: Pattern, model: Callable[..., Any], *inputs: torch.Tensor) -> list[dict[str, str]]:
    """Returns the variables of each match of the last call, as inputs, scalars and operators."""
    program = edge(model, *(inputs or (X, Y)), passes=())
    return [
        {name: described(value) for name, value in found.values.items()} for found in of(program, pattern)
    ]


def of(program: EdgeProgram, pattern: Pattern) -> list[Match]:
    (result,) = program.user_outputs()
    return list(pattern.matches(result, Match(Builder(program).facts.constant)))


def described(value: Any) -> str:
    if not isinstance(value, torch.fx.Node):
        return str(value)
    return value.name if value.op == "placeholder" else str(value.target)


MATCHING: dict[str, tuple[Pattern, Callable[..., Any], dict[str, str]]] = {
    "sum": (x + y, lambda a, b: a + b, XY),
    "sum with a number": (x + Scalar("c"), lambda a, b: a + 3.0, {**ONLY_X, "c": "3.0"}),
    "number first": (x * Scalar("c"), lambda a, b: 3.0 * a, {**ONLY_X, "c": "3.0"}),
    "constant number": (x + Scalar("c"), lambda a, b: a + torch.tensor([0.5]), {**ONLY_X, "c": "0.5"}),
    "square": (x * x, lambda a, b: a * a, ONLY_X),
    "power": (x**2, lambda a, b: a.pow(2), ONLY_X),
    "alternatives": (x * x | x**2, lambda a, b: a.pow(2), ONLY_X),
    "shared operand": (x / sqrt(x + y), lambda a, b: a / (b + a).sqrt(), XY),
    "power as a root": (x * rsqrt(y), lambda a, b: b.pow(-0.5) * a, XY),
    "reciprocal": (reciprocal(x - y), lambda a, b: (a - b).reciprocal(), XY),
    "number that occurs twice": (
        x * Scalar("c") + Scalar("c"),
        lambda a, b: a * 0.1 + 0.1,
        {**ONLY_X, "c": "0.1"},
    ),
    "value behind views": (Through(x + y, is_view), lambda a, b: (a + b).view(4, 2).view(8), XY),
    "first result": (
        Call(operator.getitem, Call(aten.topk.default, x, ...), 0),
        lambda a, b: a.topk(1)[0],
        ONLY_X,
    ),
    "argument": (
        Call(aten.sum.dim_IntList, x, Argument("dims")),
        lambda a, b: a.sum([1]),
        {**ONLY_X, "dims": "[1]"},
    ),
    "conversion": (cast(-x), lambda a, b: (-a).half(), ONLY_X),
    "constant": (x * Const("w"), lambda a, b: ROW * a, {**ONLY_X, "w": "c_lifted_tensor_0"}),
    "list": (Call(aten.cat.default, [x, y], -1), lambda a, b: torch.cat([a, b], -1), XY),
    "any argument": (Call(aten.sum.dim_IntList, x, ANY, True), lambda a, b: a.sum([0], True), ONLY_X),
    "named call": (
        (x + y).named("z") * 2,
        lambda a, b: (a + b) * 2,
        {"x": "args_0", "y": "args_1", "z": "aten.add.Tensor"},
    ),
    "condition": (
        x.where(lambda node: node.name == "args_1") + y,
        lambda a, b: a + b,
        {"x": "args_1", "y": "args_0"},
    ),
}


@pytest.mark.parametrize(("pattern", "model", "expected"), MATCHING.values(), ids=MATCHING)
def test_a_pattern_matches(pattern: Pattern, model: Callable[..., Any], expected: dict[str, str]) -> None:
    assert expected in matches(pattern, model)


OTHERS: dict[str, tuple[Pattern, Callable[..., Any]]] = {
    "another operator": (x + y, lambda a, b: a - b),
    "another operand": (x * x, lambda a, b: a * b),
    "two numbers": (x * Scalar("c") + Scalar("c"), lambda a, b: a * 0.1 + 0.2),
    "value behind another call": (Through(x + y, is_view), lambda a, b: (a + b).exp().view(8)),
    "another result": (Call(operator.getitem, Call(aten.topk.default, x, ...), 0), lambda a, b: a.topk(1)[1]),
    "another number": (x**2, lambda a, b: a.pow(3)),
    "difference of exchanged operands": (Scalar("c") - x, lambda a, b: a - 1.0),
    "argument that is not the default": (x + y, lambda a, b: torch.add(a, b, alpha=2)),
    "variable in place of a constant": (x * Const("w"), lambda a, b: a * b),
    "several elements in place of a number": (x * Scalar("c"), lambda a, b: a * ROW),
    "shorter list": (Call(aten.cat.default, [x, y], -1), lambda a, b: torch.cat([a, b, a], -1)),
    "false condition": (x.where(lambda node: node.name == "args_2") + y, lambda a, b: a + b),
    "several users": ((x + y).one_use() * x, lambda a, b: (lambda z: (z * a) * (z * 2))(a + b)),
}


@pytest.mark.parametrize(("pattern", "model"), OTHERS.values(), ids=OTHERS)
def test_other_calls_do_not_match(pattern: Pattern, model: Callable[..., Any]) -> None:
    assert matches(pattern, model) == []


def test_all_ways_to_match_come_in_order() -> None:
    found = matches(x * y, lambda a, b: a * b)
    assert found == [XY, {"x": "args_1", "y": "args_0"}]
    first, second = matches(x.named("z") | y, lambda a, b: a * b)
    assert first == {"x": "aten.mul.Tensor", "z": "aten.mul.Tensor"} and second == {"y": "aten.mul.Tensor"}


def test_a_match_has_its_calls_from_the_result_on() -> None:
    program = edge(lambda a, b: (a + b).sqrt() * 2, X, Y, passes=())
    match, *_ = of(program, sqrt(x + y) * 2)
    assert [call.target for call in match.calls] == [aten.mul.Scalar, aten.sqrt.default, aten.add.Tensor]


def test_patterns_know_the_targets_of_their_calls() -> None:
    assert (sqrt(x) | x * 2).targets == {
        *(aten.sqrt.default, aten.pow.Tensor_Scalar, aten.mul.Tensor, aten.mul.Scalar),
    }
    assert (sqrt(x) | y).targets == frozenset()
