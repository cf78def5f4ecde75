# SPDX-License-Identifier: Apache-2.0
"""Legalization: the order of rules, undoing, and reasons."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest
import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge import to_edge
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import static_shapes
from delegatec.edge.legalize.engine import legalize
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.legalize.value import Value, table, value_of
from delegatec.edge.program import EdgeProgram
from delegatec.edge.verifier import verify

aten = torch.ops.aten

X: Final = torch.tensor([[0.5, -1.25, 2.0], [3.0, -0.75, 0.25]])


class Imagined:
    """A target that supports some operators, with rules for others."""

    def __init__(
        self, legal: Sequence[OpOverload], rules: Mapping[OpOverload, Sequence[Rule]], full: bool = True
    ) -> None:
        self.full = full
        self._legal = legal
        self._rules = rules

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        return None if node.target in self._legal else Refusal("operator", f"lacks {node.target}")

    def rules(self, node: Node) -> Sequence[Rule]:
        target: Any = node.target
        return self._rules.get(target, ())


def rule(compute: Callable[[Value], Value]) -> Rule:
    def apply(builder: Builder, node: Node) -> Node:
        return compute(value_of(builder, node.all_input_nodes[0])).node

    return apply


def edge(function: Callable[..., Any]) -> EdgeProgram:
    class Call(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    return to_edge(torch.export.export(Call(), (X,)), passes=())


def operators(program: EdgeProgram) -> list[str]:
    verify(program)
    return [node.target._opname for node in program.graph.nodes if node.op == "call_function"]


def run(program: EdgeProgram) -> torch.Tensor:
    values = [program.constants.get(node.name, X) for node in program.placeholders()]
    result: torch.Tensor = torch.fx.Interpreter(program.graph_module).run(*values)[0]
    return result


def sinh(x: Value) -> Value:
    return (x.exp() - (-x).exp()) / 2.0


ARITHMETIC: Final = (aten.exp.default, aten.neg.default, aten.sub.Tensor, aten.div.Scalar)


def test_a_call_becomes_calls_that_are_legal() -> None:
    program = edge(lambda x: x.sinh())
    assert legalize(program, Imagined(ARITHMETIC, {aten.sinh.default: [rule(sinh)]})) == []
    assert operators(program) == ["exp", "neg", "exp", "sub", "div"]
    torch.testing.assert_close(run(program), X.sinh())


def test_emitted_calls_are_legalized() -> None:
    rules: dict[OpOverload, list[Rule]] = {
        aten.sinh.default: [rule(sinh)],
        aten.neg.default: [rule(lambda x: x * -1.0)],
    }
    legal = (aten.exp.default, aten.mul.Scalar, aten.sub.Tensor, aten.div.Scalar)
    program = edge(lambda x: x.sinh())
    assert legalize(program, Imagined(legal, rules)) == []
    assert operators(program) == ["exp", "mul", "exp", "sub", "div"]
    torch.testing.assert_close(run(program), X.sinh())


def test_the_last_call_of_a_rule_may_be_replaced_itself() -> None:
    rules: dict[OpOverload, list[Rule]] = {
        aten.sinh.default: [rule(sinh)],
        aten.div.Scalar: [rule(lambda x: x * 0.5)],
    }
    legal = (aten.exp.default, aten.neg.default, aten.sub.Tensor, aten.mul.Scalar)
    program = edge(lambda x: x.sinh() + 0)
    (node,) = (n for n in program.graph.nodes if n.target is aten.sinh.default)
    reader = next(iter(node.users))
    legalize(program, Imagined((*legal, reader.target), rules))
    assert [source.target for source in reader.all_input_nodes] == [aten.mul.Scalar]
    torch.testing.assert_close(run(program), X.sinh())


def test_a_rule_whose_parts_are_not_legal_is_undone_and_the_next_one_is_tried() -> None:
    program = edge(lambda x: x.sinh())
    by_table = rule(lambda x: table(x.builder, X.sinh()) * 1.0)
    target = Imagined((aten.mul.Scalar,), {aten.sinh.default: [rule(sinh), by_table]})
    assert legalize(program, target) == []
    assert operators(program) == ["mul"]
    torch.testing.assert_close(run(program), X.sinh())


def test_the_reason_is_that_of_the_call_that_no_rule_makes_legal() -> None:
    program = edge(lambda x: x.sinh())
    before = str(program.graph)
    target = Imagined(ARITHMETIC[1:], {aten.sinh.default: [rule(sinh)]})
    ((node, refusal),) = legalize(program, target)
    assert (node.target, refusal.message) == (aten.sinh.default, "lacks aten.exp.default")
    assert str(program.graph) == before


def test_a_rule_may_return_a_reason() -> None:
    refusal = Refusal("size", "is too large", "make it smaller")
    program = edge(lambda x: x.sinh())
    ((_, given),) = legalize(
        program, Imagined((), {aten.sinh.default: [lambda b, n: None, lambda b, n: refusal]})
    )
    assert given is refusal


def test_a_rule_that_emits_its_call_terminates() -> None:
    program = edge(lambda x: x.sinh())
    ((_, refusal),) = legalize(program, Imagined((), {aten.sinh.default: [rule(lambda x: (-x) * 1.0)]}))
    assert refusal.message == "lacks aten.neg.default"
    again: list[Rule] = [lambda b, n: b.call(aten.sinh.default, n.args[0])]
    ((_, refusal),) = legalize(program, Imagined((), {aten.sinh.default: again}))
    assert refusal.message == "lacks aten.sinh.default"
    assert operators(program) == ["sinh"]


def test_a_partial_target_keeps_illegal_calls() -> None:
    program = edge(lambda x: x.sinh())
    target = Imagined((), {aten.sinh.default: [rule(sinh)]}, full=False)
    legalize(program, target)
    assert operators(program) == ["exp", "neg", "exp", "sub", "div"]


def test_equal_tables_are_one_constant() -> None:
    program = edge(lambda x: x.sinh())
    twice = rule(lambda x: x * table(x.builder, X) + table(x.builder, X.clone()) * table(x.builder, X + 1))
    target = Imagined((aten.mul.Tensor, aten.add.Tensor), {aten.sinh.default: [twice]})
    assert legalize(program, target) == []
    assert len(program.constants) == 2
    torch.testing.assert_close(run(program), X * X + X * (X + 1))


@pytest.mark.parametrize("scalar", [2, 2.5])
def test_a_specialized_number_is_not_a_constant_argument(scalar: float) -> None:
    """torch.export keeps the nodes that computed it."""
    graph = torch.fx.Graph()
    x, computed = graph.placeholder("x"), graph.call_function(operator.truediv, (4, 2))
    product = graph.call_function(torch.ops.aten.mul.Tensor, (x, computed))
    computed.meta["val"] = scalar
    x.meta["val"] = product.meta["val"] = torch.ones(3)
    assert static_shapes("").broken(product, None) == f"the symbolic scalar {scalar} is an operand"


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.to(torch.float16), "rewritten to torch.float16, not torch.float32"),
        (lambda x: x.unsqueeze(0), r"rewritten to \(1, "),
    ],
)
def test_a_rewrite_keeps_dtype_and_sizes(
    wrong: Callable[[torch.Tensor], torch.Tensor], message: str, full: bool
) -> None:
    def apply(builder: Builder, node: Node) -> Node:
        source = node.all_input_nodes[0]
        with builder.fake_mode:
            val = wrong(source.meta["val"])
        return builder.call(aten.exp.default, source, val=val)

    target = Imagined([aten.exp.default], {aten.sinh.default: [apply]}, full)
    with pytest.raises(AssertionError, match=message):
        legalize(edge(torch.sinh), target)
