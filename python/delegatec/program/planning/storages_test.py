# SPDX-License-Identifier: Apache-2.0
"""Memory and lifetimes of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import Function, edge
from delegatec.program.planning.assignment import Storages
from delegatec.program.planning.instructions import slot_of
from delegatec.program.planning.storages import assign_storages

aten = torch.ops.aten
X = torch.ones(4, 8)


def _assign(
    function: Callable[..., Any], *inputs: torch.Tensor, **options: Any
) -> tuple[EdgeProgram, Storages]:
    program = edge(function, *inputs, **options)
    return program, assign_storages(program)


def _instructions(storages: Storages) -> list[str]:
    return [
        str(getattr(instruction.node.target, "_opname", instruction.node.target))
        for instruction in storages.instructions
    ]


@pytest.mark.parametrize(
    ("view", "offset"),
    [
        pytest.param(lambda y: y.view(8, 4), 0, id="view"),
        pytest.param(lambda y: y[None], 0, id="unsqueeze"),
        pytest.param(lambda y: y.view(1, 4, 8).squeeze(0), 0, id="squeeze"),
        pytest.param(lambda y: y[1], 32, id="select"),
        pytest.param(lambda y: y[-1], 96, id="select from the end"),
        pytest.param(lambda y: y[1:3], 32, id="slice"),
        pytest.param(lambda y: y[-2:], 64, id="slice from the end"),
        pytest.param(lambda y: y[:1, 4:], 16, id="slice of a row"),
        pytest.param(lambda y: y[2:][1], 96, id="view of a view"),
        pytest.param(lambda y: y.view(2, 16)[1].view(4, 4), 64, id="reshaped"),
    ],
)
def test_views_are_other_tensors_in_the_same_memory(view: Callable[..., Any], offset: int) -> None:
    program, storages = _assign(lambda x: view(torch.sin(x)), X)
    assert _instructions(storages) == ["sin"]
    results: Any = program.output_node().args[0]
    (result,) = results
    (sin,) = (instruction.node for instruction in storages.instructions)
    assert storages.placements[slot_of(result)].storage is storages.placements[slot_of(sin)].storage
    assert storages.placements[slot_of(result)].offset == offset
    assert [storage.size for storage in storages.all()] == [128, 128]


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda y: y.T, id="permute"),
        pytest.param(lambda y: y[None].expand(2, 4, 8), id="expand"),
        pytest.param(lambda y: y[:, 1:], id="slice of columns"),
        pytest.param(lambda y: y[::2], id="with a step"),
        pytest.param(lambda y: y[:, 0], id="column"),
        pytest.param(lambda y: y[:1, 1:], id="not aligned"),
    ],
)
def test_data_movement_is_a_copy(view: Callable[..., Any]) -> None:
    _, storages = _assign(lambda x: view(torch.sin(x)), X)
    assert _instructions(storages)[0] == "sin" and len(_instructions(storages)) >= 2
    assert len(storages.all()) >= 3


def test_dynamic_views_are_copies() -> None:
    _, storages = _assign(
        lambda x: torch.sin(x).view(-1, 4), X, dynamic_shapes=({0: Dim("rows", min=2, max=9)},)
    )
    assert "view" in _instructions(storages)
    assert max(storage.size for storage in storages.all()) == 9 * 8 * 4


def test_lifetimes() -> None:
    def function(x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
        a = torch.sin(x)  # 0
        b = torch.cos(a)  # 1
        c = torch.tanh(b)  # 2
        return torch.exp(a.view(8, 4)[0] + c[0, :4])  # 3, 4

    _, storages = _assign(function, X, X.clone())
    lives = [(storage.first, storage.last) for storage in storages.all()]
    x, unused, a, b, c, added, result = lives
    assert _instructions(storages) == ["sin", "cos", "tanh", "add", "exp"]
    assert x == (-1, 0) and unused == (-1, -1)
    assert a == (0, 3), "a view of it is read at 3"
    assert b == (1, 2) and c == (2, 3) and added == (3, 4)
    assert result[0] == 4 and result[1] > 4, "an output lives to the end"


def test_outputs_that_are_views_keep_their_memory_to_the_end() -> None:
    _, storages = _assign(lambda x: (torch.sin(x)[1:2], torch.cos(x)), X)
    sin = storages.placements[slot_of(storages.instructions[0].node)].storage
    assert sin.last > len(storages.instructions)


def test_results_of_one_kernel() -> None:
    _, storages = _assign(lambda x: torch.max(x, 1)[1], X)
    (node,) = (instruction.node for instruction in storages.instructions)
    values, indices = (storages.placements[node, position].storage for position in range(2))
    assert (values.size, indices.size) == (16, 32)
    assert (values.first, values.last) == (0, 0), "nothing reads it, and it is written all the same"
    assert indices.last > 0


def test_constants_need_no_memory_and_views_of_them_neither() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return x + self.table[None], x.maximum(self.table)

    _, storages = _assign(Function(model, table=torch.ones(300, 300)), torch.ones(300, 300))
    assert _instructions(storages) == ["add", "maximum"]
    assert len(storages.constants) == 2 and len(set(storages.constants.values())) == 1
    assert len(storages.all()) == 3


def test_a_slice_of_a_constant_is_a_copy_unless_it_is_its_beginning() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        return x + self.table[:200], x + self.table[100:]

    _, storages = _assign(Function(model, table=torch.ones(300, 300)), torch.ones(200, 300))
    assert sorted(_instructions(storages)) == ["add", "add", "slice"]


def test_buffers_that_are_written_to_live_all_the_time() -> None:
    def model(self: Any, x: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = self.total[0] * 2
        self.total.add_(x)
        return first

    program, storages = _assign(Function(model, total=torch.zeros(4, 8)), X)
    (name,) = storages.mutable
    (placeholder,) = (node for node in program.placeholders() if node.name == name)
    storage = storages.placements[slot_of(placeholder)].storage
    assert storage.first == -1 and storage.last > len(storages.instructions)
    assert "select" not in _instructions(storages), "it is read before the write"
