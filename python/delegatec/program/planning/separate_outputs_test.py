# SPDX-License-Identifier: Apache-2.0
"""Every output has separate memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.testing import Function, assert_computes, called, edge
from delegatec.program.planning.instructions import slot_of
from delegatec.program.planning.separate_outputs import separate_outputs
from delegatec.program.planning.storages import assign_storages

aten = torch.ops.aten
X = torch.arange(32.0).view(4, 8)


def _copies(model: Callable[..., Any], *inputs: torch.Tensor) -> int:
    """How many copies are made for outputs, of which no two share memory afterwards."""
    program = edge(model, *inputs)
    before = len(called(program))
    separate_outputs(program)
    storages = assign_storages(program)
    results: Any = program.output_node().args[0]
    taken: list[tuple[int, range]] = []
    for result in results:
        if isinstance(result, torch.fx.Node) and not (
            result.op == "placeholder" and result.name in storages.mutable
        ):
            placement = storages.placements[slot_of(result)]
            own = range(placement.offset, placement.offset + result.meta["val"].nbytes)
            assert placement.storage.first >= 0
            assert not any(
                storage == id(placement.storage) and own.start < other.stop and other.start < own.stop
                for storage, other in taken
            )
            taken.append((id(placement.storage), own))
    assert called(program)[before:] == [aten.clone.default] * (len(called(program)) - before)
    return len(called(program)) - before


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        pytest.param(lambda x: x + 1, 0, id="computed"),
        pytest.param(lambda x: x, 1, id="input"),
        pytest.param(lambda x: (x, x), 2, id="input, twice"),
        pytest.param(lambda x: x.view(-1), 1, id="view of an input"),
        pytest.param(lambda x: x[1:], 1, id="slice of an input"),
        pytest.param(lambda x: x.T, 0, id="permuted input"),
        pytest.param(lambda x: [x + 1] * 3, 2, id="computed, three times"),
        pytest.param(lambda x: (x.sin(), x.sin().view(-1)), 1, id="computed, and a view of it"),
        pytest.param(lambda x: (x.sin().view(-1), x.sin()[1:]), 1, id="overlapping views"),
        pytest.param(lambda x: x.sin().split(2), 0, id="views of different parts"),
        pytest.param(lambda x: torch.max(x, 1), 0, id="results of one kernel"),
        pytest.param(lambda x: (torch.max(x, 1)[0], torch.max(x, 1)[0]), 1, id="one of them twice"),
        pytest.param(lambda x: (None, 3, x + 1), 0, id="numbers"),
    ],
)
def test_copies(function: Callable[..., Any], copies: int) -> None:
    assert _copies(function, X) == copies


def test_constants_are_copied_and_views_of_them_too() -> None:
    table = torch.ones(200, 200)
    model = Function(lambda self, x: (x + 1, self.table, self.table.view(-1), self.table[0:100]), table=table)
    assert _copies(model, X) == 3


def test_results_stay_the_same() -> None:
    def function(x: torch.Tensor) -> Any:
        return x, x.view(-1), (x + 1), (x + 1).view(-1), None

    program = edge(function, X)
    separate_outputs(program)
    assert_computes(program, function(X), X)


def test_a_copy_has_the_source_of_its_operand() -> None:
    program = edge(lambda x: (x.sin(), x.sin()), X)
    separate_outputs(program)
    results: Any = program.output_node().args[0]
    first, second = results
    assert second.target is aten.clone.default
    for key in ("source", "debug_handle"):
        assert second.meta[key] == first.meta[key]


def test_the_new_value_of_a_buffer_is_not_the_memory_of_another() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        kept = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(kept)
        return x + 1

    program = edge(Function(model, a=torch.zeros(2), b=torch.ones(2)), X)
    separate_outputs(program)
    results: Any = program.output_node().args[0]
    assert [node.target for node in results[:2]] == [aten.clone.default] * 2
    assert_computes(program, (torch.ones(2), torch.zeros(2), X + 1), X)


def test_the_state_before_the_call_is_copied_before_it_is_written() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        before: torch.Tensor = self.total.clone()
        self.total.add_(x)
        return before

    program = edge(Function(model, total=torch.zeros(4, 8)), X)
    separate_outputs(program)
    results: Any = program.output_node().args[0]
    assert results[1].target is aten.clone.default
