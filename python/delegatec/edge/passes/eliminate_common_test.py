# SPDX-License-Identifier: Apache-2.0
"""Equal calls become one; those that only look equal do not."""

from __future__ import annotations

import torch

from delegatec.edge.passes.eliminate_common import eliminate_common
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(6.0).view(2, 3)


def test_equal_calls_become_one() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x + 1) * torch.sin(x + 1)

    program = edge(function, X, passes=(eliminate_common,))
    assert called(program) == [aten.add.Scalar, aten.sin.default, aten.mul.Tensor]
    assert_computes(program, function(X), X)


def test_calls_with_several_results_become_one() -> None:
    program = edge(lambda x: (x.max(1)[0], x.max(1)[1]), X, passes=(eliminate_common,))
    assert called(program) == [aten.max.dim]
    assert_computes(program, tuple(X.max(1)), X)


def test_arguments_that_are_equal_in_python_differ() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        i = x.int()
        return (i * 1, i * 1.0, i * True, x * 0.0, x * -0.0, torch.full((2,), 1), torch.full((2,), True))

    program = edge(function, X - 3, passes=(eliminate_common,))
    assert called(program).count(aten.mul.Scalar) == 5 and called(program).count(aten.full.default) == 2
    assert_computes(program, function(X - 3), X - 3)


def test_different_keywords_differ() -> None:
    program = edge(
        lambda x: (aten._to_copy.default(x, dtype=torch.int32), aten._to_copy.default(x, dtype=torch.int64)),
        X,
        passes=(eliminate_common,),
    )
    assert len(called(program)) == 2


def test_random_values_are_drawn_each_time() -> None:
    program = edge(lambda x: torch.rand(3) + torch.rand(3) + x, X, passes=(eliminate_common,))
    assert called(program).count(aten.rand.default) == 2


def test_operands_keep_their_order() -> None:
    program = edge(lambda x, y: (x - y) * (y - x), X, X + 1, passes=(eliminate_common,))
    assert called(program).count(aten.sub.Tensor) == 2


def test_operands_of_commutative_calls_are_compared_in_any_order() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x + y, y + x, x * y, y * x, x == y, y == x, x * x

    program = edge(function, X, X.mT.reshape(2, 3), passes=(eliminate_common,))
    assert called(program) == [aten.add.Tensor, aten.mul.Tensor, aten.eq.Tensor, aten.mul.Tensor]
    assert_computes(program, function(X, X.mT.reshape(2, 3)), X, X.mT.reshape(2, 3))


def test_scaled_sums_do_not_commute() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.add(x, y, alpha=2), torch.add(y, x, alpha=2), x + y, x < y, y < x

    program = edge(function, X, X.mT.reshape(2, 3), passes=(eliminate_common,))
    assert len(called(program)) == 5
    assert_computes(program, function(X, X.mT.reshape(2, 3)), X, X.mT.reshape(2, 3))


def test_sizes_that_depend_on_data_are_equal_after_their_calls_become_one() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        found, again = x[(x[:, 0] > 2).nonzero()[:, 0]], x[(x[:, 0] > 2).nonzero()[:, 0]]
        return torch.cat([found, again]) * torch.ones(3)

    program = edge(function, X)
    assert called(program).count(aten.nonzero.default) == 1
    sizes = {
        str(node.meta["val"].shape[0]) for node in program.graph.nodes if node.target is aten.cat.default
    }
    assert sizes == {"2*u0"}
    assert_computes(program, function(X), X)
