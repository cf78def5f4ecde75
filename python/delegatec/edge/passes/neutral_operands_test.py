# SPDX-License-Identifier: Apache-2.0
"""Neutral operands are removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.passes.neutral_operands import remove_neutral_operands
from delegatec.edge.testing import Function, assert_computes, called, edge

aten = torch.ops.aten
FLAGS = torch.tensor([[True, False, True]])
CONJUNCTIONS = {aten.bitwise_and.Tensor, aten.logical_and.default}


def _goes(function: Callable[..., Any], constant: torch.Tensor, flags: torch.Tensor = FLAGS) -> bool:
    program = edge(
        Function(lambda self, x: function(x, self.constant), constant=constant),
        flags,
        passes=(remove_neutral_operands,),
    )
    assert_computes(program, function(flags, constant), flags)
    return not CONJUNCTIONS & set(called(program))


ALL = torch.ones(1, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    "constant", [ALL, ALL.expand(4, 3).clone(), torch.tensor(True)], ids=("same", "wider", "one")
)
@pytest.mark.parametrize(
    "function",
    [lambda x, c: x & c, lambda x, c: c & x, lambda x, c: torch.logical_and(x, c)],
    ids=("x & true", "true & x", "logical_and"),
)
def test_conjunctions_with_true_are_removed(function: Callable[..., Any], constant: torch.Tensor) -> None:
    assert _goes(function, constant)


def test_conjunctions_with_anything_else_stay() -> None:
    assert not _goes(lambda x, c: x & c, FLAGS)
    assert not _goes(lambda x, c: x & c, torch.full((3,), 1), torch.tensor([1, 2, 3]))  # of bits
    assert not _goes(lambda x, c: torch.logical_and(x, c), ALL, torch.tensor([[0, 2, 3]]))  # not bool


def test_mutable_buffers_are_kept() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        kept = x & self.keep
        self.keep.copy_(~self.keep)
        return kept

    program = edge(Function(model, keep=ALL), FLAGS, passes=(remove_neutral_operands,))
    assert aten.bitwise_and.Tensor in called(program)


X = torch.tensor([[1.0, -2.0, 3.0]])
OPERATORS = {*CONJUNCTIONS, aten.mul.Tensor, aten.where.self}


def _left(model: Callable[..., Any], expected: torch.Tensor, x: torch.Tensor = X, **state: Any) -> set[Any]:
    program = edge(Function(model, **state), x, passes=(remove_neutral_operands,))
    assert_computes(program, expected, x)
    return OPERATORS & set(called(program))


def test_products_with_ones_are_removed() -> None:
    assert not _left(lambda self, x: x * self.one, X, one=torch.ones(1, 1))
    assert not _left(lambda self, x: self.one * x, X.expand(4, 3), one=torch.ones(4, 3))
    assert not _left(lambda self, x: x * self.one, X, one=torch.ones(3, dtype=torch.int64))


def test_products_with_anything_else_stay() -> None:
    assert _left(
        lambda self, x: x * self.most, X * torch.tensor([1, 1, 2]), most=torch.tensor([1.0, 1.0, 2.0])
    )
    numbers = torch.tensor([1, 2])
    assert _left(lambda self, x: x * self.one, numbers.float(), numbers, one=torch.ones(1))


class Gain(torch.nn.Module):
    """A weight that starts with ones."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_weights_of_ones_are_weights() -> None:
    program = edge(Gain(), X, passes=(remove_neutral_operands,))
    assert aten.mul.Tensor in called(program)


def test_constant_choices_are_removed() -> None:
    all_of_them = torch.ones(2, 3, dtype=torch.bool)
    assert not _left(lambda self, x: torch.where(self.flags, x, 0.0), X.expand(2, 3), flags=all_of_them)
    assert not _left(lambda self, x: torch.where(self.flags, 7.0, x), X, flags=~all_of_them[:1])


def test_choices_that_are_open_or_promote_stay() -> None:
    chosen = torch.where(FLAGS, X, 0.0)
    assert _left(lambda self, x: torch.where(self.flags, x, 0.0), chosen, flags=FLAGS)
    numbers = torch.tensor([[1, 2, 3]])
    assert _left(
        lambda self, x: torch.where(self.flags, x, self.other),
        numbers.float(),
        numbers,
        flags=torch.ones(1, 3, dtype=torch.bool),
        other=torch.tensor(0.5),
    )
