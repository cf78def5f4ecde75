# SPDX-License-Identifier: Apache-2.0
"""`to_backend` with a backend that runs nodes in eager mode: splicing, methods, constants, cost."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from delegatec.delegation import (
    BackendRegistry,
    CompileSpec,
    LoweredModule,
    PartitionView,
    PreprocessResult,
    call_delegate,
    to_backend,
)
from delegatec.delegation.testing import NET_ARGS, EagerBackend, Net, SupportsAllBut, edge, lines_run
from delegatec.edge import EdgeProgram, to_edge

aten = torch.ops.aten


def outputs_of(program: EdgeProgram) -> list[Node]:
    return program.output_node().all_input_nodes


def run(program: EdgeProgram, args: Any) -> list[torch.Tensor]:
    inputs = iter(pytree.tree_leaves(args))
    values = [
        program.constants[node.name] if node.name in program.constants else next(inputs)
        for node in program.placeholders()
    ]
    return list(torch.fx.Interpreter(program.graph_module).run(*values))


@pytest.mark.parametrize(
    ("left", "delegates"),
    [((), 1), ((aten.sin.default,), 2), ((aten.sin.default, aten.cos.default), 3), ((aten.relu.default,), 2)],
)
def test_delegated_program_computes_the_same(left: tuple[OpOverload, ...], delegates: int) -> None:
    program = edge(Net(), NET_ARGS)
    reference = run(program, NET_ARGS)
    names = [spec.kind for spec in program.output_specs]
    report = to_backend(program, SupportsAllBut(*left), registry=BackendRegistry([EagerBackend()])).report
    assert len(report.delegates) == delegates
    assert [r.operator for r in report.rejections] == [str(target) for target in left]
    assert report.nodes_left == len(left)
    assert [spec.kind for spec in program.output_specs] == names
    assert [spec.arg.name for spec in program.output_specs] == [node.name for node in outputs_of(program)]
    for result, wanted in zip(run(program, NET_ARGS), reference, strict=True):
        torch.testing.assert_close(result, wanted)
    program.graph.lint()


def test_metadata_names_and_constants() -> None:
    program = edge(Net(), NET_ARGS)
    report = to_backend(
        program, SupportsAllBut(aten.sin.default), registry=BackendRegistry([EagerBackend()])
    ).report
    calls = [node for node in program.graph.nodes if node.target is call_delegate]
    assert [node.args[0].target for node in calls] == ["lowered_0", "lowered_1"]
    for call, summary in zip(calls, report.delegates, strict=True):
        module = program.graph_module.get_submodule(summary.module.name)
        assert module is summary.module
        assert isinstance(module, LoweredModule)
        assert [node.name for node in call.args[1:]] == list(summary.input_names)
        assert isinstance(call.meta["val"], tuple)
        assert call.meta["debug_handle"] >= 1
        assert module.debug_handles == tuple(sorted(set(module.debug_handles)))
        for user in call.users:
            assert user.target is operator.getitem
            assert user.meta["val"] is call.meta["val"][user.args[1]]
    # Parameters moved into the delegates; the buffer that is written to stays in the program.
    assert [spec.target for spec in program.input_specs if spec.target] == ["total"]
    assert len(program.constants) == 1
    assert "max" in report.delegates[0].module.original.program.graph.__str__()
    assert repr(report.delegates[0].module).startswith("LoweredModule(")
    assert "EagerBackend, blob of 1 B, settings: level=b'\\x01'" in repr(report.delegates[0].module)


def test_a_written_buffer_is_an_input_of_the_delegate() -> None:
    program, backend = edge(Net(), NET_ARGS), EagerBackend()
    to_backend(program, SupportsAllBut(), registry=BackendRegistry([backend]))
    (view,) = backend.views
    assert any("total" in node.name for node in view.inputs)
    assert not any("total" in node.name for node in view.constants)


def test_several_partitioners_in_order() -> None:
    program = edge(Net(), NET_ARGS)
    wanted = run(program, NET_ARGS)
    second = EagerBackend("Second")
    second.name = "second"
    registry = BackendRegistry([EagerBackend(), second])
    partitioners = [
        SupportsAllBut(aten.sin.default, aten.cos.default),
        SupportsAllBut(aten.cos.default, backend_id="Second"),
    ]
    report = to_backend(program, partitioners, registry=registry).report
    assert [d.module.backend_id for d in report.delegates] == ["EagerBackend"] * 3 + ["Second"]
    assert [(r.backend_id, r.operator) for r in report.rejections] == [
        ("EagerBackend", "aten.cos.default"),
        ("Second", "aten.cos.default"),
    ]
    for result, reference in zip(run(program, NET_ARGS), wanted, strict=True):
        torch.testing.assert_close(result, reference)


def test_cost_is_linear_in_nodes() -> None:
    def cost(depth: int) -> int:
        class Deep(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x

        program = edge(Deep(), (NET_ARGS[0],))
        output = program.output_node()
        node = value = program.placeholders()[0]
        with program.graph.inserting_before(output):
            for index in range(depth):
                target = aten.cos.default if index % 50 == 49 else aten.sin.default
                node = program.graph.call_function(target, (node,))
                node.meta.update(val=value.meta["val"], debug_handle=index + 1)
        output.args = ((node,),)

        def work() -> None:
            report = to_backend(
                program, SupportsAllBut(aten.cos.default), registry=BackendRegistry([Cheap()])
            ).report
            assert len(report.delegates) == depth // 50

        return lines_run(work)

    class Cheap(EagerBackend):
        def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
            return PreprocessResult([b""])

    cost(500)  # warm-up
    # Ten times the nodes: a quadratic algorithm would run a hundred times as many lines.
    assert cost(5_000) < 15 * cost(500)


def test_methods_with_one_partitioner_or_one_each() -> None:
    registry = BackendRegistry([EagerBackend()])
    programs = {name: edge(Net(), NET_ARGS) for name in ("encode", "decode")}
    results = to_backend(programs, SupportsAllBut(), registry=registry)
    assert [len(result.report.delegates) for result in results.values()] == [1, 1]
    assert all(results[name].program is program for name, program in programs.items())

    programs = {name: edge(Net(), NET_ARGS) for name in ("encode", "decode")}
    results = to_backend(programs, {"decode": [SupportsAllBut(aten.sin.default)]}, registry=registry)
    assert [len(result.report.delegates) for result in results.values()] == [0, 2]
    assert results["encode"].report.nodes_left == results["encode"].report.nodes_before > 0


def test_a_constant_with_other_uses_is_kept() -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.lone = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (self.b(self.a(x).sin()) * self.lone).cos(), self.lone

    def taken(*left: OpOverload) -> tuple[EdgeProgram, set[Any]]:
        program = to_edge(torch.export.export(Tied(), (NET_ARGS[0],)), preserve=[aten.linear.default])
        to_backend(program, SupportsAllBut(*left), registry=BackendRegistry([EagerBackend()]))
        return program, {spec.target for spec in program.input_specs if spec.target}

    # Returned constants are kept, regardless of other uses; the others are in the delegate.
    assert taken()[1] == {"lone"}
    # A weight under two names stays once, with both consumers.
    program, names = taken(aten.linear.default)
    assert len(names & {"a.weight", "b.weight"}) == 1 and names >= {"a.bias", "b.bias", "lone"}
    weights = [node.args[1] for node in program.graph.nodes if node.target is aten.linear.default]
    assert len(weights) == 2 and weights[0] is weights[1]
