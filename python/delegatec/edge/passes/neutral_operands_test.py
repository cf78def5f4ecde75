# SPDX-License-Identifier: Apache-2.0
"""A conjunction with nothing but true is the other operand."""

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
def test_conjunctions_with_true_go(function: Callable[..., Any], constant: torch.Tensor) -> None:
    assert _goes(function, constant)


def test_conjunctions_with_anything_else_stay() -> None:
    assert not _goes(lambda x, c: x & c, FLAGS)
    assert not _goes(lambda x, c: x & c, torch.full((3,), 1), torch.tensor([1, 2, 3]))  # of bits
    assert not _goes(lambda x, c: torch.logical_and(x, c), ALL, torch.tensor([[0, 2, 3]]))  # not bool


def test_what_the_program_writes_to_stays() -> None:
    def model(self: Any, x: torch.Tensor) -> Any:
        kept = x & self.keep
        self.keep.copy_(~self.keep)
        return kept

    program = edge(Function(model, keep=ALL), FLAGS, passes=(remove_neutral_operands,))
    assert aten.bitwise_and.Tensor in called(program)
