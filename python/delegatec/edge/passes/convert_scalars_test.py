# SPDX-License-Identifier: Apache-2.0
"""0-d operands have the dtype of the computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import assert_computes, called, edge

CAST = torch.ops.aten._to_copy.default
HALVES = torch.tensor([0.1, 0.5, -1.5]).half()


@pytest.mark.parametrize(
    "function",
    [torch.eq, torch.sub, torch.fmod, lambda x, y: torch.where(x > 0, x, y), lambda x, y: y >= x],
    ids=("eq", "sub", "fmod", "where", "ge"),
)
def test_a_scalar_of_the_same_category_is_converted(function: Callable[..., Any]) -> None:
    for x, y in ((HALVES, torch.tensor(0.1)), (torch.tensor([44, 3]).to(torch.uint8), torch.tensor(300))):
        program = edge(function, x, y)
        assert called(program).count(CAST) == 1
        assert_computes(program, function(x, y), x, y)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (HALVES, torch.tensor(3)),
        (torch.tensor([1, 2]), torch.tensor(0.5)),
        (HALVES, torch.tensor([0.1])),
        (HALVES[0], torch.tensor(0.1)),
        (HALVES.float(), HALVES[0]),
    ],
    ids=("lower_category", "higher_category", "vector", "two_scalars", "narrower"),
)
def test_other_operands_stay(x: Tensor, y: Tensor) -> None:
    program = edge(torch.eq, x, y)
    assert CAST not in called(program)
    assert_computes(program, x == y, x, y)
