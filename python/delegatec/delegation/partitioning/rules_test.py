# SPDX-License-Identifier: Apache-2.0
"""A user's rules over a partitioner: rejected nodes, reasons, and convexity of groups."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import Node

from delegatec.delegation import (
    BackendRegistry,
    Delegated,
    DelegationSpec,
    Partitioner,
    Partitioning,
    PartitionRules,
    RuledPartitioner,
    to_backend,
)
from delegatec.delegation.grouping_test import contracted_is_acyclic
from delegatec.delegation.partitioning.rule_check import RuleCheck
from delegatec.delegation.testing import SPECS, EagerBackend, SupportsAllBut, edge, lines_run
from delegatec.diagnostics import SourceLocation
from delegatec.edge import EdgeProgram
from delegatec.edge.module import EdgeModule

aten = torch.ops.aten
X = torch.randn(2, 4)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.inner(x))


class Model(torch.nn.Module):
    """Seven nodes: addmm and sin, twice; cos; topk, which has two results; add."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        values, indices = x.cos().topk(4)
        return values + indices


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.cond(x.sum() > 0, lambda x: self.layer(x).sin(), lambda x: x.cos(), (x,))
        return y


def delegate(rules: PartitionRules, *left: Any) -> tuple[Delegated, dict[str, tuple[str, str, str]]]:
    """Lowers the model, checks its results, and returns the reasons: operator -> rule, message, help."""
    program = edge(Model(), (X,))
    check = RuleCheck(rules, [program])
    assert not check.problems()
    wanted = EdgeModule(program)(X)
    registry = BackendRegistry([EagerBackend()])
    result = to_backend(program, RuledPartitioner(SupportsAllBut(*left), rules), registry=registry)
    torch.testing.assert_close(EdgeModule(program)(X), wanted)
    reasons = result.report.rejections
    assert not check.problems_after(result.report.operators)
    assert len(reasons) == result.report.nodes_left
    assert all(isinstance(reason.location, SourceLocation) for reason in reasons)
    return result, {reason.operator: (reason.rule, reason.message, reason.help) for reason in reasons}


def sizes(result: Delegated) -> list[int]:
    return [sum(summary.operators.values()) for summary in result.report.delegates]


def test_without_rules_nothing_changes() -> None:
    result, reasons = delegate(PartitionRules())
    assert (sizes(result), reasons) == ([7], {})


@pytest.mark.parametrize("name", ["aten.cos", "aten.cos.default", "aten.c[ou]s*"])
def test_blocked_operators_split(name: str) -> None:
    result, reasons = delegate(PartitionRules(block_operators=(name,)))
    assert sizes(result) == [4, 2]
    assert reasons == {
        "aten.cos.default": (
            "block-operators",
            f'aten.cos.default matches "{name}"',
            f'remove "{name}" from block_operators',
        )
    }


def test_results_stay_with_their_node() -> None:
    result, reasons = delegate(PartitionRules(block_operators=("aten.topk",)))
    assert sizes(result) == [5, 1]
    assert set(reasons) == {"aten.topk.default"}


def test_only_allowed_operators() -> None:
    result, reasons = delegate(PartitionRules(allow_operators=("aten.addmm", "aten.sin")))
    assert sizes(result) == [4]
    assert reasons["aten.cos.default"] == (
        "allow-operators",
        "aten.cos.default is not one of aten.addmm, aten.sin",
        "add it to allow_operators",
    )


def test_composites_select_what_they_become() -> None:
    result, reasons = delegate(PartitionRules(block_operators=("aten.linear",)))
    assert sizes(result) == [1, 4]
    assert reasons["aten.addmm.default"] == (
        "block-operators",
        'aten.addmm.default (from aten.linear.default) matches "aten.linear"',
        'remove "aten.linear" from block_operators',
    )
    result, reasons = delegate(PartitionRules(allow_operators=("aten.linear.default",)))
    assert sizes(result) == [1, 1]
    assert reasons["aten.sin.default"][1] == "aten.sin.default is not one of aten.linear.default"


def test_composites_in_bodies_select_the_call() -> None:
    program = edge(Branches(), (X,))
    rules = PartitionRules(block_operators=("aten.linear",))
    assert not RuleCheck(rules, [program]).problems()
    partitioner = RuledPartitioner(SupportsAllBut(), rules)
    report = to_backend(program, partitioner, registry=BackendRegistry([EagerBackend()])).report
    wanted = 'aten.addmm.default (from aten.linear.default) matches "aten.linear"'
    assert {r.message for r in report.rejections if r.operator == "aten.addmm.default"} == {wanted}
    assert all(each.operators.get("aten.addmm.default") is None for each in report.delegates)


def test_blocked_modules() -> None:
    result, reasons = delegate(PartitionRules(block_modules=("blocks.0",)))
    assert sizes(result) == [5]
    assert reasons["aten.addmm.default"][:2] == (
        "block-modules",
        "module 'blocks.0.inner' matches \"blocks.0\"",
    )
    assert reasons["aten.sin.default"][1] == "module 'blocks.0' matches \"blocks.0\""


def test_only_allowed_modules() -> None:
    result, reasons = delegate(PartitionRules(allow_modules=("*.inner",)))
    assert sizes(result) == [1, 1]
    assert reasons["aten.sin.default"][1] == "module 'blocks.1' is not one of *.inner"
    assert reasons["aten.cos.default"][1] == "the model itself is not one of *.inner"


def test_small_delegates_are_rejected() -> None:
    result, reasons = delegate(PartitionRules(minimum_nodes=3), aten.cos.default)
    assert sizes(result) == [4]
    assert reasons["aten.add.Tensor"][:2] == (
        "minimum-nodes",
        "its delegate would have 2 nodes, and minimum_nodes is 3",
    )
    assert reasons["aten.cos.default"][0] == "left"  # the partitioner's own reason


def test_the_largest_delegates_stay() -> None:
    result, reasons = delegate(PartitionRules(maximum_delegates=1), aten.cos.default, aten.topk.default)
    assert sizes(result) == [4]
    assert reasons["aten.add.Tensor"] == (
        "maximum-delegates",
        "its delegate would have 1 node, and is not among the 1 largest",
        "raise maximum_delegates",
    )


def test_all_or_nothing() -> None:
    assert sizes(delegate(PartitionRules(all_or_nothing=True))[0]) == [7]
    result, reasons = delegate(PartitionRules(all_or_nothing=True), aten.cos.default)
    assert sizes(result) == []
    assert reasons["aten.addmm.default"][:2] == (
        "all-or-nothing",
        "1 node cannot be delegated, such as cos (aten.cos.default)",
    )


class Grouped(Partitioner):
    """Assigns given groups: not the largest ones."""

    def __init__(self, groups: list[list[int]]) -> None:
        self._groups = groups

    def partition(self, program: EdgeProgram) -> Partitioning:
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        groups = [[nodes[member] for member in group] for group in self._groups]
        return Partitioning(DelegationSpec("EagerBackend", SPECS), groups)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[bool]]:
    """Edges, groups of adjacent nodes (which are always convex), and blocked nodes."""
    size = draw(st.integers(1, 25))
    edges = [
        sorted(draw(st.sets(st.integers(0, node - 1), max_size=3))) if node else [] for node in range(size)
    ]
    cuts = sorted(draw(st.sets(st.integers(1, size), max_size=5)) | {size})
    runs = [list(range(a, b)) for a, b in zip([0, *cuts], cuts, strict=False)]
    groups = [run for run in runs if run and draw(st.integers(0, 3))]
    return edges, groups, draw(st.lists(st.booleans(), min_size=size, max_size=size))


@given(grouped(), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_remaining_groups_are_convex(
    case: tuple[list[list[int]], list[list[int]], list[bool]], minimum: int
) -> None:
    edges, groups, blocked = case
    program = graph_of(edges, blocked)
    rules = PartitionRules(block_operators=("aten.cos",), minimum_nodes=minimum)
    partitioning = RuledPartitioner(Grouped(groups), rules).partition(program)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    index = {node: position for position, node in enumerate(nodes)}
    result = [[index[node] for node in group] for group in partitioning.groups]
    assert contracted_is_acyclic(edges, result)
    assert all(len(group) >= minimum and group == sorted(group) for group in result)
    before = {member for group in groups for member in group}
    after = {member for group in result for member in group}
    assert after <= {member for member in before if not blocked[member]}
    assert {index[reason.node] for reason in partitioning.rejections} == before - after


def graph_of(edges: list[list[int]], blocked: list[bool]) -> EdgeProgram:
    """Returns a program of sums, in which the blocked nodes are cos and the others sin."""

    class Identity(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    program = edge(Identity(), (X,))
    (source,) = program.placeholders()
    output = program.output_node()
    nodes: list[Node] = []
    with program.graph.inserting_before(output):
        for sources, block in zip(edges, blocked, strict=True):
            target: Any = aten.cos.default if block else aten.sin.default
            nodes.append(program.graph.call_function(target, (source, [nodes[s] for s in sources])))
    output.args = ((nodes[-1],),)
    return program


def test_cost_is_linear() -> None:
    def cost(size: int) -> int:
        edges = [[node - 1] if node else [] for node in range(size)]
        program = graph_of(edges, [node % 10 == 0 for node in range(size)])
        rules = PartitionRules(block_operators=("aten.cos",), minimum_nodes=2, maximum_delegates=7)
        partitioner = RuledPartitioner(SupportsAllBut(), rules)
        return lines_run(lambda: partitioner.partition(program))

    cost(100)  # warm-up
    # Ten times the nodes: a quadratic algorithm would run a hundred times as many lines.
    assert cost(5_000) < 15 * cost(500)
