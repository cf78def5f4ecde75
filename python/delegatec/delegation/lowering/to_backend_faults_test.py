# SPDX-License-Identifier: Apache-2.0
"""Faults of partitioners and backends in `to_backend`: each is reported, all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch.fx import Node

from delegatec.delegation import (
    BackendRegistry,
    CompileSpec,
    DelegationSpec,
    Partitioner,
    Partitioning,
    PartitionView,
    PreprocessResult,
    to_backend,
    unchecked_edits,
)
from delegatec.delegation.testing import NET_ARGS, SPECS, EagerBackend, Net, SupportsAllBut, edge
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge import EdgeProgram, to_edge

aten = torch.ops.aten


def test_unknown_backend_id_lists_the_known_ones() -> None:
    with pytest.raises(DelegatecError, match=r"no backend has the id 'No'[\s\S]*EagerBackend"):
        to_backend(
            edge(Net(), NET_ARGS), SupportsAllBut(backend_id="No"), registry=BackendRegistry([EagerBackend()])
        )


class Bad(Partitioner):
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
        to_backend(edge(Chain(), (NET_ARGS[0],)), Bad(decide), registry=BackendRegistry([EagerBackend()]))
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
        to_backend(edge(Extremes(), (NET_ARGS[0],)), Bad(decide), registry=BackendRegistry([EagerBackend()]))
    assert error.value.diagnostics[0].code == "DC404"


@pytest.mark.parametrize(
    "result",
    [Partitioning("EagerBackend"), Partitioning(DelegationSpec("EagerBackend"), [], ["all"])],  # type: ignore[arg-type,list-item]
)
def test_a_partitioning_of_other_things(result: Partitioning) -> None:
    class Other(Partitioner):
        def partition(self, program: EdgeProgram) -> Partitioning:
            return result

    with pytest.raises(
        DelegatecError, match="its delegation is not a DelegationSpec, or a rejection not"
    ) as error:
        to_backend(edge(Net(), NET_ARGS), Other(), registry=BackendRegistry([EagerBackend()]))
    assert error.value.diagnostics[0].code == "DC404"


def test_problems_of_all_groups_are_reported_at_once() -> None:
    class Failing(EagerBackend):
        def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
            raise DelegatecError([Diagnostic("DC406", f"in {view.nodes[0].name}")])

    program = edge(Net(), NET_ARGS)
    before = str(program.graph)
    with pytest.raises(DelegatecError) as error:
        to_backend(program, SupportsAllBut(aten.sin.default), registry=BackendRegistry([Failing()]))
    assert len(error.value.diagnostics) == 2
    assert str(program.graph) == before


def test_problems_of_all_methods_are_reported_at_once() -> None:
    programs = {name: edge(Net(), NET_ARGS) for name in ("encode", "decode")}
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

    program = edge(Net(), NET_ARGS)
    with pytest.raises(DelegatecError, match="DC411: preprocess of backend EagerBackend edited the program"):
        to_backend(program, SupportsAllBut(), registry=BackendRegistry([Editing()]))


def test_a_backend_that_reads_a_dynamic_size_as_a_number() -> None:
    class Fixing(EagerBackend):
        def preprocess(self, view: PartitionView, compile_specs: Sequence[CompileSpec]) -> PreprocessResult:
            assert int(view.inputs[0].meta["val"].shape[0]) == 4
            return super().preprocess(view, compile_specs)

    rows = torch.export.Dim("rows", max=9)
    exported = torch.export.export(torch.nn.ReLU(), (torch.ones(4, 2),), dynamic_shapes=({0: rows},))
    with pytest.raises(DelegatecError, match=r"DC411: .* returned a blob for one value of a dynamic size"):
        to_backend(to_edge(exported), SupportsAllBut(), registry=BackendRegistry([Fixing()]))


@pytest.mark.parametrize("decide", [_edit, _edit_value, _edit_signature])
def test_the_check_of_partitioners_can_be_switched_off(
    decide: Callable[[EdgeProgram, list[Node]], list[list[Node]]],
) -> None:
    registry = BackendRegistry([EagerBackend()])
    with unchecked_edits():
        to_backend(edge(Net(), NET_ARGS), Bad(decide), registry=registry)
    with pytest.raises(DelegatecError, match="edited the program"):
        to_backend(edge(Net(), NET_ARGS), Bad(decide), registry=registry)
