# SPDX-License-Identifier: Apache-2.0
"""`to_backend` with a backend that runs nodes in eager mode: splicing, bodies, methods, errors, cost."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from delegatec.delegation import (
    BackendRegistry,
    CompileSpec,
    DelegationSpec,
    LoweredModule,
    Partitioning,
    PartitionView,
    PreprocessResult,
    call_delegate,
    to_backend,
    unchecked_edits,
)
from delegatec.delegation.delegates.operators import operator_nodes
from delegatec.delegation.lowering.splice import free_names
from delegatec.delegation.testing import SPECS, EagerBackend, SupportsAllBut, lines_run
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge import EdgeProgram, to_edge
from delegatec.edge.module import EdgeModule
from delegatec.edge.verifier import verify

aten = torch.ops.aten


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.scale = torch.nn.Parameter(torch.full((4,), 3.0))
        self.total: torch.Tensor
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.first(x).relu()
        s = torch.sin(h) * self.scale
        self.total.add_(s.sum(0))
        return {"a": torch.cos(s) + y, "b": h.max(), "c": h}


ARGS = (torch.randn(2, 4), torch.randn(4))


def edge(module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> EdgeProgram:
    return to_edge(torch.export.export(module.eval(), args))


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
    program = edge(Net(), ARGS)
    reference = run(program, ARGS)
    names = [spec.kind for spec in program.output_specs]
    report = to_backend(program, SupportsAllBut(*left), registry=BackendRegistry([EagerBackend()])).report
    assert len(report.delegates) == delegates
    assert [r.operator for r in report.rejections] == [str(target) for target in left]
    assert report.nodes_left == len(left)
    assert [spec.kind for spec in program.output_specs] == names
    assert [spec.arg.name for spec in program.output_specs] == [node.name for node in outputs_of(program)]
    for result, wanted in zip(run(program, ARGS), reference, strict=True):
        torch.testing.assert_close(result, wanted)
    program.graph.lint()


def test_metadata_names_and_constants() -> None:
    program = edge(Net(), ARGS)
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
    # Parameters went with the delegates; the buffer that is written to stays the program's own.
    assert [spec.target for spec in program.input_specs if spec.target] == ["total"]
    assert len(program.constants) == 1
    assert "max" in report.delegates[0].module.original.program.graph.__str__()
    assert repr(report.delegates[0].module).startswith("LoweredModule(")
    assert "EagerBackend, blob of 1 B, settings: level=b'\\x01'" in repr(report.delegates[0].module)


def test_a_written_buffer_is_an_input_of_the_delegate() -> None:
    program, backend = edge(Net(), ARGS), EagerBackend()
    to_backend(program, SupportsAllBut(), registry=BackendRegistry([backend]))
    (view,) = backend.views
    assert any("total" in node.name for node in view.inputs)
    assert not any("total" in node.name for node in view.constants)


def test_several_partitioners_in_order() -> None:
    program = edge(Net(), ARGS)
    wanted = run(program, ARGS)
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
    for result, reference in zip(run(program, ARGS), wanted, strict=True):
        torch.testing.assert_close(result, reference)


def test_unknown_backend_id_lists_the_known_ones() -> None:
    with pytest.raises(DelegatecError, match=r"no backend has the id 'No'[\s\S]*EagerBackend"):
        to_backend(
            edge(Net(), ARGS), SupportsAllBut(backend_id="No"), registry=BackendRegistry([EagerBackend()])
        )


class Bad:
    def __init__(self, decide: Callable[[EdgeProgram, list[Node]], list[list[Node]]]) -> None:
        self._decide = decide

    def partition(self, program: EdgeProgram) -> Partitioning:
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        return Partitioning(DelegationSpec("EagerBackend", SPECS), self._decide(program, nodes))


def _edit(program: EdgeProgram, nodes: list[Node]) -> list[list[Node]]:
    nodes[0].update_kwarg("alpha", 2)
    return []


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (_edit, "it edited the program"),
        (lambda program, nodes: [nodes[:2], nodes[1:3]], "a node is in two groups"),
        (lambda program, nodes: [[program.output_node()]], "is not an operator in the program"),
        (lambda program, nodes: [[nodes[0], nodes[-1]]], "a group depends on itself"),
    ],
)
def test_bad_partitioners(
    decide: Callable[[EdgeProgram, list[Node]], list[list[Node]]], message: str
) -> None:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin().cos().exp().tanh()

    with pytest.raises(DelegatecError, match=message) as error:
        to_backend(edge(Chain(), (ARGS[0],)), Bad(decide), registry=BackendRegistry([EagerBackend()]))
    assert error.value.diagnostics[0].code == "DC404"


@pytest.mark.parametrize("taken", [[0], [0, 2], [1]])
def test_results_of_an_operator_stay_with_it(taken: list[int]) -> None:
    class Extremes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = x.max(0)
            return found.values, found.indices

    def decide(_: EdgeProgram, nodes: list[Node]) -> list[list[Node]]:
        return [[nodes[index] for index in taken]]

    with pytest.raises(DelegatecError, match=r"separated .* from a getitem of its results") as error:
        to_backend(edge(Extremes(), (ARGS[0],)), Bad(decide), registry=BackendRegistry([EagerBackend()]))
    assert error.value.diagnostics[0].code == "DC404"


@pytest.mark.parametrize(
    "result",
    [Partitioning("EagerBackend"), Partitioning(DelegationSpec("EagerBackend"), [], ["all"])],  # type: ignore[arg-type,list-item]
)
def test_a_partitioning_of_other_things(result: Partitioning) -> None:
    class Other:
        def partition(self, program: EdgeProgram) -> Partitioning:
            return result

    with pytest.raises(
        DelegatecError, match="its delegation is not a DelegationSpec, or a rejection not"
    ) as error:
        to_backend(edge(Net(), ARGS), Other(), registry=BackendRegistry([EagerBackend()]))
    assert error.value.diagnostics[0].code == "DC404"


def test_problems_of_all_groups_are_reported_at_once() -> None:
    class Failing(EagerBackend):
        def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
            raise DelegatecError([Diagnostic("DC406", f"in {view.nodes[0].name}")])

    program = edge(Net(), ARGS)
    before = str(program.graph)
    with pytest.raises(DelegatecError) as error:
        to_backend(program, SupportsAllBut(aten.sin.default), registry=BackendRegistry([Failing()]))
    assert len(error.value.diagnostics) == 2
    assert str(program.graph) == before


def test_cost_is_linear_in_nodes() -> None:
    def cost(depth: int) -> int:
        class Deep(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x

        program = edge(Deep(), (ARGS[0],))
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
        # The parameter went with the delegates, out of the owner and out of the body.
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


def test_methods_with_one_partitioner_or_one_each() -> None:
    registry = BackendRegistry([EagerBackend()])
    programs = {name: edge(Net(), ARGS) for name in ("encode", "decode")}
    results = to_backend(programs, SupportsAllBut(), registry=registry)
    assert [len(result.report.delegates) for result in results.values()] == [1, 1]
    assert all(results[name].program is program for name, program in programs.items())

    programs = {name: edge(Net(), ARGS) for name in ("encode", "decode")}
    results = to_backend(programs, {"decode": [SupportsAllBut(aten.sin.default)]}, registry=registry)
    assert [len(result.report.delegates) for result in results.values()] == [0, 2]
    assert results["encode"].report.nodes_left == results["encode"].report.nodes_before > 0


def test_problems_of_all_methods_are_reported_at_once() -> None:
    programs = {name: edge(Net(), ARGS) for name in ("encode", "decode")}
    partitioners = {
        "encode": SupportsAllBut(backend_id="No"),
        "decode": Bad(_edit),
        "encod": SupportsAllBut(),
    }
    with pytest.raises(DelegatecError) as error:
        to_backend(programs, partitioners, registry=BackendRegistry([EagerBackend()]))
    assert [d.code for d in error.value.diagnostics] == ["DC413", "DC401", "DC404"]
    assert error.value.diagnostics[0].help == "did you mean 'encode'?"
    assert error.value.diagnostics[0].expected == "encode, decode"


def _edit_value(program: EdgeProgram, nodes: list[Node]) -> list[list[Node]]:
    nodes[0].meta["val"] = nodes[0].meta["val"].double()
    return []


def _edit_signature(program: EdgeProgram, nodes: list[Node]) -> list[list[Node]]:
    program.output_specs.reverse()
    return []


def test_a_backend_that_edits_its_view() -> None:
    class Editing(EagerBackend):
        def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
            result = super().preprocess(view, compile_specs)
            view.nodes[0].target = aten.cos.default
            return result

    program = edge(Net(), ARGS)
    with pytest.raises(DelegatecError, match="DC411: preprocess of backend EagerBackend edited the program"):
        to_backend(program, SupportsAllBut(), registry=BackendRegistry([Editing()]))


@pytest.mark.parametrize("decide", [_edit, _edit_value, _edit_signature])
def test_the_check_of_partitioners_can_be_switched_off(
    decide: Callable[[EdgeProgram, list[Node]], list[list[Node]]],
) -> None:
    registry = BackendRegistry([EagerBackend()])
    with unchecked_edits():
        to_backend(edge(Net(), ARGS), Bad(decide), registry=registry)
    with pytest.raises(DelegatecError, match="edited the program"):
        to_backend(edge(Net(), ARGS), Bad(decide), registry=registry)


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
        program = to_edge(torch.export.export(Tied(), (ARGS[0],)), preserve=[aten.linear.default])
        to_backend(program, SupportsAllBut(*left), registry=BackendRegistry([EagerBackend()]))
        return program, {spec.target for spec in program.input_specs if spec.target}

    # Returned constants are kept, regardless of other uses; the others are in the delegate.
    assert taken()[1] == {"lone"}
    # A weight under two names stays once, with both readers.
    program, names = taken(aten.linear.default)
    assert len(names & {"a.weight", "b.weight"}) == 1 and names >= {"a.bias", "b.bias", "lone"}
    weights = [node.args[1] for node in program.graph.nodes if node.target is aten.linear.default]
    assert len(weights) == 2 and weights[0] is weights[1]


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
