# SPDX-License-Identifier: Apache-2.0
"""Passes of rules and patterns, by printed graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from delegatec.edge import print_program
from delegatec.edge.builder import Builder
from delegatec.edge.passes.rewrite import rewrite
from delegatec.edge.patterns.formulas import sqrt
from delegatec.edge.patterns.fusion import fusion
from delegatec.edge.patterns.pattern import Const, Scalar, Var
from delegatec.edge.testing import assert_computes, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
X = torch.tensor([1.0, 4.0, 9.0])
WEIGHT = torch.tensor([2.0, 3.0, 4.0])
x = Var("x")


def reciprocal_root(b: Builder, node: Node, x: Node) -> Node:
    return b.call(aten.rsqrt.default, x)


def scaled(b: Builder, node: Node, x: Node, weight: Node | None = None, scale: float = 1.0) -> Node | None:
    return None if scale == 3 else b.call(aten.exp.default, x)


def root_of_reciprocal(b: Builder, node: Node) -> Node:
    return b.call(aten.sqrt.default, b.call(aten.reciprocal.default, node.args[0]))


ROOT = fusion(sqrt(x) ** -1, reciprocal_root)
EXPONENTIAL = fusion((x * Scalar("scale")) * Const("weight") | x * Scalar("scale"), scaled)


def rewritten(model: Callable[..., Any], rules: Any, users_first: bool = False) -> str:
    program = edge(model, X, passes=())
    changed = rewrite(program, rules, users_first)
    verify(program)
    text = print_program(program, rules=True)
    assert changed == ("edge.passes.rewrite_test" in text)
    return "".join(line.split("  #")[0] + "\n" for line in text.splitlines())


def test_a_match_is_replaced() -> None:
    program = edge(lambda x: x.sqrt() ** -1, X, passes=())
    assert rewrite(program, ROOT)
    assert_computes(program, X.rsqrt(), X)
    assert (
        print_program(program).splitlines()[1].split("  #")[0] == "  %1: f32[3] = aten.rsqrt.default(%args_0)"
    )


def test_other_calls_stay() -> None:
    text = "forward(%args_0: f32[3]):\n  %1: f32[3] = aten.sqrt.default(%args_0)\n  return [%1]\n"
    assert rewritten(lambda x: x.sqrt(), ROOT) == text


def test_operands_with_other_users_stay() -> None:
    assert rewritten(lambda x: (x.sqrt() ** -1, x.sqrt() + 1), ROOT).count("sqrt.default(") == 2


def test_the_longest_match_comes_first() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2.0 * WEIGHT

    long = rewritten(model, EXPONENTIAL, users_first=True)
    assert long == "forward(%args_0: f32[3]):\n  %1: f32[3] = aten.exp.default(%args_0)\n  return [%1]\n"
    assert "aten.mul.Tensor" in rewritten(model, EXPONENTIAL)


def test_a_replacement_may_refuse() -> None:
    assert "exp" not in rewritten(lambda x: x * 3.0, EXPONENTIAL)


def test_a_call_may_be_edited() -> None:
    def narrowed(_: Builder, node: Node) -> Node:
        node.args = (*node.args[:1], 5.0)
        return node

    program = edge(lambda x: x * 3.0, X, passes=())
    assert rewrite(program, {aten.mul.Scalar: narrowed})
    assert_computes(program, X * 5, X)


def test_nodes_keep_the_names_of_the_rules_that_led_to_them() -> None:
    program = edge(lambda x: x.sqrt() ** -1, X, passes=())
    rewrite(program, ROOT)
    rewrite(program, {aten.rsqrt.default: root_of_reciprocal})
    name = "edge.passes.rewrite_test"
    lines = print_program(program, rules=True).splitlines()
    assert all(
        line.endswith(f" by {name}.reciprocal_root > {name}.root_of_reciprocal") for line in lines[1:3]
    )
    assert " by " not in print_program(program)
