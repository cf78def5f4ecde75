# SPDX-License-Identifier: Apache-2.0
"""Neutral operands are removed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.interpret import interpret
from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.neutral_operands import remove_neutral_operands
from delegatec.edge.testing import Function, assert_computes, called, edge, export

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
OPERATORS = {
    *CONJUNCTIONS,
    aten.add.Tensor,
    aten.bitwise_or.Tensor,
    aten.bitwise_xor.Tensor,
    aten.div.Tensor,
    aten.logical_not.default,
    aten.logical_or.default,
    aten.mul.Tensor,
    aten.neg.default,
    aten.sub.Tensor,
    aten.where.self,
}


def _left(model: Callable[..., Any], expected: torch.Tensor, x: torch.Tensor = X, **state: Any) -> set[Any]:
    program = edge(Function(model, **state), x, passes=(remove_neutral_operands, eliminate_dead_code))
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
    integers = torch.tensor([1, 2])
    assert _left(lambda self, x: x * self.one, integers.float(), integers, one=torch.ones(1))


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
    integers = torch.tensor([[1, 2, 3]])
    assert _left(
        lambda self, x: torch.where(self.flags, x, self.other),
        integers.float(),
        integers,
        flags=torch.ones(1, 3, dtype=torch.bool),
        other=torch.tensor(0.5),
    )


SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 1e-45, 3e38])
ZEROS = torch.zeros(9)


@pytest.mark.parametrize(
    ("model", "state"),
    [
        pytest.param(lambda self, x: x / self.y, torch.ones(9), id="x / 1"),
        pytest.param(lambda self, x: x - self.y, ZEROS, id="x - 0"),
        pytest.param(lambda self, x: x - self.y, torch.zeros(9, dtype=torch.int32), id="x - integer 0"),
        pytest.param(lambda self, x: self.y + x, -ZEROS, id="-0.0 + x"),
        pytest.param(lambda self, x: x.neg().neg(), ZEROS, id="-(-x)"),
        pytest.param(lambda self, x: torch.where(self.y == x, x, x), ZEROS, id="where(c, x, x)"),
    ],
)
def test_neutral_operands_of_floats_go(model: Callable[..., Any], state: torch.Tensor) -> None:
    program = edge(Function(model, y=state), SPECIAL, passes=(remove_neutral_operands, eliminate_dead_code))
    assert not OPERATORS & set(called(program))
    (result,) = interpret(program, [SPECIAL])
    assert torch.equal(result.view(torch.int32), SPECIAL.view(torch.int32))


@pytest.mark.parametrize(
    ("model", "state"),
    [
        pytest.param(lambda self, x: self.y / x, torch.ones(9), id="1 / x"),
        pytest.param(lambda self, x: x + self.y, ZEROS, id="x + 0"),
        pytest.param(lambda self, x: x + self.y, torch.zeros(9, dtype=torch.int32), id="x + integer 0"),
        pytest.param(lambda self, x: x - self.y, -ZEROS, id="x - -0.0"),
        pytest.param(lambda self, x: self.y - x, ZEROS, id="0 - x"),
        pytest.param(lambda self, x: torch.sub(x, self.y, alpha=-1), ZEROS, id="x + 0 by alpha"),
        pytest.param(lambda self, x: x * self.y, ZEROS, id="x * 0"),
        pytest.param(lambda self, x: -x.abs(), ZEROS, id="-|x|"),
    ],
)
def test_other_operands_of_floats_stay(model: Callable[..., Any], state: torch.Tensor) -> None:
    program = edge(Function(model, y=state), SPECIAL, passes=(remove_neutral_operands,))
    assert OPERATORS & set(called(program))
    assert_computes(program, Function(model, y=state)(SPECIAL), SPECIAL)


def test_zeros_go_where_their_sign_does_not_matter() -> None:
    x = torch.tensor([[-0.0, 0.0, 1.0]])
    assert not _left(
        lambda self, x: (x + self.y).view(3).softmax(0), x.view(3).softmax(0), x, y=torch.zeros(3)
    )
    both = lambda self, x: ((x + self.y).softmax(0), x + self.y)  # noqa: E731
    program = edge(Function(both, y=torch.zeros(3)), x, passes=(remove_neutral_operands,))
    assert aten.add.Tensor in called(program)


def test_neutral_operands_of_integers_and_bools_go() -> None:
    integers, zeros = torch.tensor([[-3, 0, 7]]), torch.zeros(3, dtype=torch.int64)
    for function in (torch.add, torch.sub, torch.bitwise_or, torch.bitwise_xor):
        assert not _left(
            lambda self, x, function=function: function(x, self.zeros), integers, integers, zeros=zeros
        )
    assert not _left(lambda self, x: torch.logical_or(self.no, x), FLAGS, FLAGS, no=torch.tensor([False]))
    assert not _left(lambda self, x: ~~x, FLAGS, FLAGS, no=FLAGS)
    assert _left(lambda self, x: torch.logical_or(x, self.zeros), integers != 0, integers, zeros=zeros)


INTS = torch.tensor([-(2**31), -1, 0, 1, 2**31 - 1], dtype=torch.int32)


def _is_kept(function: Callable[..., Any], x: torch.Tensor) -> bool:
    """Whether the last call of a function stays; its results are the same, with the signs of zeros."""
    program = edge(function, x, passes=(remove_neutral_operands, eliminate_dead_code))
    (result,) = interpret(program, [x])
    expected = function(x)
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(result.signbit(), expected.signbit())
    before = [node.target for node in export(function, x).graph.nodes if node.op == "call_function"]
    return len([each for each in called(program) if each is not aten.expand.default]) == len(before)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x * 1, id="x * 1"),
        pytest.param(lambda x: x * 1.0, id="x * 1.0"),
        pytest.param(lambda x: x / 1, id="x / 1"),
        pytest.param(lambda x: x - 0, id="x - 0"),
        pytest.param(lambda x: x + -0.0, id="x + -0.0"),
        pytest.param(lambda x: aten.pow.Tensor_Scalar(x, 1), id="x ** 1"),
        pytest.param(lambda x: x.relu().relu(), id="relu"),
        pytest.param(lambda x: x.abs().abs(), id="abs"),
        pytest.param(lambda x: x.clamp(-1, 2).clamp(-1, 2), id="clamp"),
        pytest.param(lambda x: x.round().floor(), id="floor of an integral value"),
        pytest.param(lambda x: x.trunc().ceil(), id="ceil of an integral value"),
    ],
)
def test_identities_of_floats_go(function: Callable[..., Any]) -> None:
    assert not _is_kept(function, SPECIAL)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x * 0, id="x * 0"),
        pytest.param(lambda x: x * -1, id="x * -1"),
        pytest.param(lambda x: x + 0, id="x + 0"),
        pytest.param(lambda x: x + 0.0, id="x + 0.0"),
        pytest.param(lambda x: x - -0.0, id="x - -0.0"),
        pytest.param(lambda x: aten.sub.Scalar(x, 0, -1), id="x + 0 by alpha"),
        pytest.param(lambda x: aten.pow.Tensor_Scalar(x, 2), id="x ** 2"),
        pytest.param(lambda x: x.clamp(-1, 2).clamp(-1, 3), id="clamps"),
        pytest.param(lambda x: x.abs().floor(), id="floor of a fraction"),
        pytest.param(lambda x: x.relu().abs(), id="another call"),
    ],
)
def test_others_of_floats_stay(function: Callable[..., Any]) -> None:
    assert _is_kept(function, SPECIAL)


def test_scalars_are_neutral_in_their_dtype() -> None:
    for function in (lambda x: x + 0, lambda x: x - 0, lambda x: x * 1, lambda x: x | 0, lambda x: x ^ 0):
        assert not _is_kept(function, INTS)
    assert _is_kept(lambda x: x * 1.0, INTS) and _is_kept(lambda x: x / 1, INTS)
    assert _is_kept(lambda x: x + 0, INTS > 0)


def test_a_size_is_no_operand() -> None:
    rows = torch.export.Dim("rows", min=2, max=5)
    program = edge(
        lambda x: torch.tensor([1.0, 1.0]) * x.shape[0], torch.ones(4), passes=(), dynamic_shapes=({0: rows},)
    )
    assert not remove_neutral_operands(program)
