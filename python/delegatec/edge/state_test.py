# SPDX-License-Identifier: Apache-2.0
"""State, and methods that only read it."""

from __future__ import annotations

import torch
from torch.export.graph_signature import OutputKind

from delegatec.edge import to_edge
from delegatec.edge.state import written_state
from delegatec.edge.testing import export


class Counter(torch.nn.Module):
    """One buffer that is written through a view, one by an operator, one that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 3))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.get_buffer("rows")[0].copy_(x)
        self.get_buffer("count").add_(1)
        return torch.relu(x * self.get_buffer("scale")).add_(1)


class Reader(Counter):
    """Reads all three."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.get_buffer("rows") * 2 + self.get_buffer("count") * (self.get_buffer("scale") + 1)


X = torch.rand(3)


def test_buffers_that_are_written_to_are_state() -> None:
    assert written_state([export(Counter(), X)]) == {"rows", "count"}
    assert written_state([export(Counter(), X).run_decompositions({})]) == {"rows", "count"}
    assert written_state([export(Reader(), X)]) == frozenset()


class Averages(torch.nn.Module):
    """A loss broadcasts a buffer, and torch.export lets a later write name the result of that."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(2, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.l1_loss(self.get_buffer("mean"), x, reduction="none")
        self.get_buffer("mean").mul_(0.5).add_(x)
        return loss


def test_a_write_to_one_of_several_views_is_one_to_its_tensor() -> None:
    program = export(Averages(), torch.rand(2, 3))
    targets = [node.target for node in program.graph.nodes]
    assert torch.ops.aten.broadcast_tensors.default in targets
    assert written_state([program]) == {"mean"}


def test_who_reads_state_keeps_it_and_folds_nothing_of_it() -> None:
    program = to_edge(export(Reader(), X), state={"rows", "count", "other"})
    names = program.names_in_model()
    assert {names[node] for node in program.mutated_inputs()} == {"rows", "count"}
    for node, value in program.mutated_inputs().items():
        assert value.name == node
    # values derived from the scale are still constant
    assert sorted(names[node] for node in program.fixed_constants()) == ["scale.add"]


def test_who_writes_it_stays_as_it_was() -> None:
    plain = to_edge(export(Counter(), X))
    program = to_edge(export(Counter(), X), state={"rows", "count"})
    assert str(program.graph) == str(plain.graph) and program.output_specs == plain.output_specs


class Weight(torch.nn.Module):
    """Doubles its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight.mul_(2)


class WeightReader(Weight):
    """Reads it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.weight + 1)


def test_a_weight_that_is_written_to_is_state() -> None:
    assert written_state([export(Weight(), X)]) == {"weight"}
    assert written_state([export(Weight(), X).run_decompositions({})]) == {"weight"}
    program = to_edge(export(WeightReader(), X), state={"weight"})
    assert [spec.kind for spec in program.output_specs] == [
        OutputKind.PARAMETER_MUTATION,
        OutputKind.USER_OUTPUT,
    ]
    assert not program.fixed_constants()
