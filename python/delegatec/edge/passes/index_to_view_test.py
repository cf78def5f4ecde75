# SPDX-License-Identifier: Apache-2.0
"""Indexing of every element in order becomes a view; any other does not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.edge.passes.fold_constants import fold_constants
from delegatec.edge.passes.index_to_view import index_to_view
from delegatec.edge.testing import Function, assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(12.0).view(3, 4)


def _becomes_view(*indices: Any) -> bool:
    def function(x: torch.Tensor) -> torch.Tensor:
        picked: torch.Tensor = aten.index.Tensor(x, list(indices))
        return picked * 2

    program = edge(function, X, passes=(fold_constants, index_to_view))
    assert_computes(program, function(X), X)
    assert (aten.view.default in called(program)) != (aten.index.Tensor in called(program))
    return aten.view.default in called(program)


ROWS, COLUMNS = torch.arange(3)[:, None], torch.arange(4)[None]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        pytest.param(ROWS, COLUMNS, id="all in order"),
        pytest.param(ROWS.int(), COLUMNS, id="int32"),
        pytest.param(ROWS - 3, COLUMNS, id="negative, in order"),
        pytest.param(ROWS[:, :, None], COLUMNS[:, :, None], id="one more dimension"),
    ],
)
def test_views(rows: torch.Tensor, columns: torch.Tensor) -> None:
    assert _becomes_view(rows, columns)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        pytest.param(ROWS.flip(0), COLUMNS, id="backwards"),
        pytest.param(ROWS.T, COLUMNS.T, id="transposed"),
        pytest.param(ROWS, COLUMNS[:, :3], id="fewer"),
        pytest.param(torch.tensor([[0], [1], [1]]), COLUMNS, id="twice"),
        pytest.param(ROWS.repeat(2, 1), COLUMNS, id="more"),
        pytest.param(ROWS, None, id="rows only"),
        pytest.param(torch.tensor([[0], [-1], [1]]), COLUMNS, id="negative, out of order"),
    ],
)
def test_no_views(rows: torch.Tensor, columns: torch.Tensor | None) -> None:
    assert not _becomes_view(rows, columns)


def test_indices_that_come_from_outside_stay() -> None:
    program = edge(lambda x, i: x[i], X, torch.arange(3), passes=(index_to_view,))
    assert aten.index.Tensor in called(program)


def test_indices_that_the_program_writes_to_stay() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        picked = x[self.order]
        self.order.copy_(self.order.flip(0))
        return picked

    program = edge(Function(model, order=torch.arange(3)), X[:, 0], passes=(index_to_view,))
    assert aten.index.Tensor in called(program)
    assert_computes(program, (torch.tensor([2, 1, 0]), X[:, 0]), X[:, 0])


def test_a_mask_of_transformers_is_a_view() -> None:
    def function(mask: torch.Tensor) -> torch.Tensor:
        return mask[torch.arange(2)[:, None, None, None], torch.arange(5)[None, None, None]]

    mask = torch.tensor([[1, 0, 1, 1, 0], [0] * 5]) > 0
    program = edge(function, mask)
    assert called(program) == [aten.view.default]
    assert_computes(program, function(mask), mask)
