# SPDX-License-Identifier: Apache-2.0
"""`to_backend` in bodies of control flow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from delegatec.delegation import (
    BackendRegistry,
    CompileSpec,
    LoweredModule,
    PartitionView,
    PreprocessResult,
    call_delegate,
    to_backend,
)
from delegatec.delegation.delegates.operators import operator_nodes
from delegatec.delegation.lowering.splice import free_names
from delegatec.delegation.partitioning.ruled_partitioner import RuledPartitioner
from delegatec.delegation.partitioning.rules import PartitionRules
from delegatec.delegation.testing import EagerBackend, SupportsAllBut, edge
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge import to_edge
from delegatec.edge.control_flow import FORMS
from delegatec.edge.module import EdgeModule
from delegatec.edge.verifier import verify


class Branches(torch.nn.Module):
    """A condition in a loop: bodies use the same parameter as the enclosing program."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> torch.Tensor:
        def then(x: torch.Tensor) -> torch.Tensor:
            return (x * self.scale).sin()

        def otherwise(x: torch.Tensor) -> torch.Tensor:
            return x.cos() + 1

        picked = torch.cond(flag, then, otherwise, (x.exp(),))
        return picked * self.scale


def test_partitions_in_bodies_of_control_flow() -> None:
    args = (torch.randn(4), torch.tensor(True))
    program = edge(Branches(), args)
    wanted = [EdgeModule(program)(args[0], torch.tensor(flag)) for flag in (True, False)]
    before = sum(len(operator_nodes(part)) for part in program.walk())
    result = to_backend(
        program, SupportsAllBut(torch.ops.higher_order.cond), registry=BackendRegistry([EagerBackend()])
    )
    assert result.program is program
    calls = [[n for n in part.graph.nodes if n.target is call_delegate] for part in program.walk()]
    assert [len(found) for found in calls] == [2, 1, 1]
    names = [summary.module.name for summary in result.report.delegates]
    assert names == ["lowered_0", "lowered_1", "lowered_2", "lowered_3"]
    for part, found in zip(program.walk(), calls, strict=True):
        verify(part)
        for call in found:
            assert isinstance(part.graph_module.get_submodule(call.args[0].target), LoweredModule)
        # The parameter moved into the delegates, out of the owner and out of the body.
        assert not part.constants
    assert (result.report.nodes_before, result.report.nodes_left) == (before, 1)
    assert [r.operator for r in result.report.rejections] == ["cond"]
    for flag, value in zip((True, False), wanted, strict=True):
        torch.testing.assert_close(EdgeModule(program)(args[0], torch.tensor(flag)), value)


def test_control_flow_itself_is_not_delegated() -> None:
    program = edge(Branches(), (torch.randn(4), torch.tensor(True)))
    with pytest.raises(
        DelegatecError, match=r"a group contains \w+, which calls a body of control flow"
    ) as error:
        to_backend(program, SupportsAllBut(), registry=BackendRegistry([EagerBackend()]))
    assert {d.code for d in error.value.diagnostics} == {"DC404"}


def test_control_flow_in_a_delegate() -> None:
    args = (torch.randn(4), torch.tensor(True))
    program = edge(Branches(), args)
    wanted = [EdgeModule(program)(args[0], torch.tensor(flag)) for flag in (True, False)]
    before = sum(len(operator_nodes(part)) for part in program.walk())
    handles = {n.meta["debug_handle"] for part in program.walk() for n in operator_nodes(part)}
    backend = EagerBackend()
    result = to_backend(program, SupportsAllBut(control_flow=FORMS), registry=BackendRegistry([backend]))
    verify(program)
    assert not program.bodies and not program.constants
    assert not [n for n in program.graph.find_nodes(op="get_attr") if n.name != "lowered_0"]
    (summary,) = result.report.delegates
    assert (result.report.nodes_before, result.report.nodes_left) == (before, 0)
    assert summary.operators["aten.sin.default"] == summary.operators["aten.cos.default"] == 1
    assert summary.constants.keys() == {"scale"}
    assert handles <= set(summary.module.debug_handles)
    (view,) = backend.views
    assert [part.is_body for body in view.bodies.values() for part in body.walk()] == [True, True]
    original = summary.module.original_program
    for part in original.walk():
        verify(part)
    for flag, value in zip((True, False), wanted, strict=True):
        torch.testing.assert_close(EdgeModule(program)(args[0], torch.tensor(flag)), value)
        torch.testing.assert_close(EdgeModule(original)(args[0], torch.tensor(flag)), [value])


def test_rules_hold_in_bodies() -> None:
    program = edge(Branches(), (torch.randn(4), torch.tensor(True)))
    rules = PartitionRules(block_operators=("aten.sin",))
    partitioner = RuledPartitioner(SupportsAllBut(control_flow=FORMS), rules)
    result = to_backend(program, partitioner, registry=BackendRegistry([EagerBackend()]))
    reasons = {each.operator: each.message for each in result.report.rejections}
    assert reasons["cond"].endswith('in its body is not supported: aten.sin.default matches "aten.sin"')
    assert sum(not body.graph.find_nodes(op="get_attr") for body in program.bodies.values()) == 0


def test_small_delegates_are_counted_with_their_bodies() -> None:
    program = edge(Branches(), (torch.randn(4), torch.tensor(True)))
    rules = PartitionRules(minimum_nodes=7)
    partitioner = RuledPartitioner(SupportsAllBut(control_flow=FORMS), rules)
    result = to_backend(program, partitioner, registry=BackendRegistry([EagerBackend()]))
    assert [sum(each.operators.values()) for each in result.report.delegates] == [7]


def test_bodies_with_delegates_cannot_be_in_another() -> None:
    program = edge(Branches(), (torch.randn(4), torch.tensor(True)))
    registry = BackendRegistry([EagerBackend()])
    to_backend(program, SupportsAllBut(torch.ops.higher_order.cond), registry=registry)
    with pytest.raises(DelegatecError, match="whose body calls a delegate"):
        to_backend(program, SupportsAllBut(control_flow=FORMS), registry=registry)


def test_problems_in_bodies_come_with_the_others() -> None:
    class Failing(EagerBackend):
        def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
            raise DelegatecError([Diagnostic("DC406", f"in {view.nodes[0].name}")])

    program = edge(Branches(), (torch.randn(4), torch.tensor(True)))
    with pytest.raises(DelegatecError) as error:
        to_backend(
            program, SupportsAllBut(torch.ops.higher_order.cond), registry=BackendRegistry([Failing()])
        )
    assert len(error.value.diagnostics) == 4


def test_names_of_delegates_are_free_in_bodies_too() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
            return result

    program = to_edge(torch.export.export(Model(), (torch.ones(3),)))
    program.graph_module.register_buffer("lowered_0", torch.ones(1))
    body = list(program.walk())[1].graph_module
    body.register_buffer("lowered_1", torch.ones(1))
    names = free_names(program)
    assert [next(names), next(names)] == ["lowered_2", "lowered_3"]
