# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters whose operands have zero and one dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.passes.raise_scalars import raise_scalars
from delegatec.edge.printer import print_program
from delegatec.edge.testing import assert_computes, edge

VECTOR, SCALAR = torch.tensor([1.0, 2.0, 3.0]), torch.tensor(5.0)
TWO, FIRST = torch.tensor(2), torch.tensor([0])


@pytest.mark.parametrize(
    ("function", "x"),
    [
        pytest.param(lambda x: x.gather(0, TWO), VECTOR, id="gather of a vector"),
        pytest.param(lambda x: x.gather(0, FIRST), SCALAR, id="gather of a scalar"),
        pytest.param(lambda x: x.scatter(0, TWO, 9.0), VECTOR, id="scatter of a number"),
        pytest.param(lambda x: x.scatter(0, TWO, x.sum()), VECTOR, id="scatter"),
        pytest.param(lambda x: x.scatter(0, FIRST, x.view(1) * 2), SCALAR, id="scatter to a scalar"),
        pytest.param(lambda x: x.scatter(0, TWO, x.sum(), reduce="add"), VECTOR, id="scatter of sums"),
        pytest.param(lambda x: x.scatter_add(0, TWO, x.sum()), VECTOR, id="scatter_add"),
        pytest.param(
            lambda x: x.scatter_reduce(0, TWO, x.sum(), "amax", include_self=False),
            VECTOR,
            id="scatter_reduce",
        ),
    ],
)
def test_operands_have_one_dimension(function: Callable[..., Any], x: torch.Tensor) -> None:
    program = edge(lambda x: function(x) * 2, x, passes=(raise_scalars,))
    assert "view" in print_program(program)
    assert not raise_scalars(program)
    assert_computes(program, function(x) * 2, x)


def test_operands_of_one_rank_stay() -> None:
    program = edge(lambda x: (x.gather(0, FIRST), x.sum().gather(0, TWO * 0)), VECTOR, passes=())
    assert not raise_scalars(program)
