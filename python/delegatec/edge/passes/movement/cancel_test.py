# SPDX-License-Identifier: Apache-2.0
"""Permutations around elementwise operators cancel, if none has to be added."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.movement.cancel import cancel_permutations
from delegatec.edge.testing import Function, assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
PASSES = (cancel_permutations, eliminate_dead_code)
X = torch.arange(24.0).view(2, 3, 4) - 9
Y = X.flip(0)


def _turned(x: torch.Tensor) -> torch.Tensor:
    return x.permute(1, 2, 0)


def _back(x: torch.Tensor) -> torch.Tensor:
    return x.permute(2, 0, 1)


def _two_results(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = _turned(x).relu() * 2
    return _back(z), _back(z + _turned(y)).exp(), _back(z > 1)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, y: _back(_turned(x).relu()) + y, id="one operator"),
        pytest.param(lambda x, y: _back((_turned(x).relu() * 2 + 1).tanh()) + y, id="a chain"),
        pytest.param(lambda x, y: _back(_turned(x) + _turned(y).relu()), id="two operands"),
        pytest.param(lambda x, y: _back(_turned(x) * _turned(x)) + y, id="the same operand"),
        pytest.param(lambda x, y: _back(_turned(x) * y.mean()), id="a scalar"),
        pytest.param(lambda x, y: _back(_turned(x) * y[:1, :1, :1]), id="one element"),
        pytest.param(lambda x, y: _back(torch.where(_turned(y) > 0, _turned(x), 0.0)), id="another dtype"),
        pytest.param(_two_results, id="several results"),
    ],
)
def test_permutations_cancel(function: Callable[..., Any]) -> None:
    program = edge(function, X, Y, passes=PASSES)
    verify(program)
    assert aten.permute.default not in called(program)
    assert_computes(program, function(X, Y), X, Y)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, y: _turned(_turned(x).relu()) + 1, id="another order"),
        pytest.param(lambda x, y: (_back(z := _turned(x).relu()), z), id="a result that is not restored"),
        pytest.param(lambda x, y: _back(_turned(x) + y.view(3, 4, 2)), id="an operand that is not permuted"),
        pytest.param(lambda x, y: _back(_turned(x) + y[0, 0, :2]), id="an operand that is broadcast"),
        pytest.param(lambda x, y: _back(_turned(x).softmax(0)), id="not elementwise"),
        pytest.param(lambda x, y: _back(x.view(3, 4, 2).relu()), id="no permutation before"),
    ],
)
def test_other_permutations_stay(function: Callable[..., Any]) -> None:
    before = called(edge(function, X, Y, passes=()))
    program = edge(function, X, Y, passes=PASSES)
    assert called(program).count(aten.permute.default) == before.count(aten.permute.default)
    assert_computes(program, function(X, Y), X, Y)


def test_a_permutation_with_other_users_stays_for_them() -> None:
    def function(x: torch.Tensor) -> Any:
        z = _turned(x)
        return _back(z.relu()), z.softmax(0)

    program = edge(function, X, passes=PASSES)
    assert called(program).count(aten.permute.default) == 1
    assert_computes(program, function(X), X)


def test_regions_that_meet_at_a_permutation() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return _turned(_back(_turned(x).relu()).exp()) + 1

    program = edge(function, X, passes=PASSES)
    verify(program)
    assert called(program).count(aten.permute.default) == 1
    assert_computes(program, function(X), X)


def test_a_call_that_needs_both_orders_stays() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        z = x.mT.relu()
        return (z + z.mT * 2).mT + 1

    x = torch.arange(9.0).view(3, 3)
    program = edge(function, x, passes=PASSES)
    assert called(program).count(aten.permute.default) == 3
    assert_computes(program, function(x), x)


def test_dynamic_sizes() -> None:
    model = Function(lambda self, x: _back((_turned(x) * x.shape[0]).relu()), unused=X)
    rows = (({0: Dim("rows", min=3, max=9)},),)
    program = edge(model, torch.ones(5, 3, 4), dynamic_shapes=rows, passes=PASSES)
    assert aten.permute.default not in called(program)
    for count in (3, 7):
        x = torch.randn(count, 3, 4)
        assert_computes(program, model(x), x)
