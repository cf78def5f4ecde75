# SPDX-License-Identifier: Apache-2.0
"""Edge programs in eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.edge.interpret import interpret
from delegatec.edge.testing import Function, edge

X = torch.arange(6.0).view(2, 3)


def test_results_are_flat_and_in_order() -> None:
    program = edge(lambda x, y: ({"sum": x + y}, [x * 2, None, 3]), X, X + 1)
    total, double, nothing, three = interpret(program, [X, X + 1])
    assert torch.equal(total, X + X + 1) and torch.equal(double, X * 2)
    assert nothing is None and three == 3


def test_new_values_of_buffers_come_with_the_results() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        self.total.add_(x)
        return self.total * 2

    program = edge(Function(model, total=torch.ones(2, 3)), X)
    for _ in range(2):
        total, double = interpret(program, [X])
        assert torch.equal(total, X + 1) and torch.equal(double, 2 * (X + 1)), "the program keeps no state"


def test_inputs_may_have_strides() -> None:
    program = edge(lambda x: x.view(-1) + 1, X)
    assert torch.equal(
        interpret(program, [torch.arange(6.0).view(3, 2).T])[0], torch.tensor([1.0, 3, 5, 2, 4, 6])
    )


def test_movements_are_dense() -> None:
    program = edge(lambda x: x.permute(1, 0).reshape(2, 3), X)
    assert torch.equal(interpret(program, [X])[0], X.T.reshape(2, 3))


def test_needs_all_inputs() -> None:
    program = edge(lambda x, y: x + y, X, X)
    with pytest.raises(ValueError, match=r"takes 2 inputs \(args_0, args_1\), got 1"):
        interpret(program, [X])
