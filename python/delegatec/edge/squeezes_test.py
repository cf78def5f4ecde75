# SPDX-License-Identifier: Apache-2.0
"""A dynamic dimension is not dropped in calls where its size is 1 and kept in others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.edge import to_edge
from delegatec.edge.exported_checks import exported_problems
from delegatec.edge.testing import export

X = torch.ones(3, 1, 4)
UP_TO_8 = Dim("rows", max=8)
FROM_2 = Dim("rows", min=2, max=8)


@pytest.mark.parametrize(
    ("function", "dim"),
    [
        (lambda x: x.squeeze(), 0),
        (lambda x: x.squeeze(0), 0),
        (lambda x: x.squeeze(-3), 0),
        (lambda x: torch.squeeze(x, (0, 1)), 0),
        (lambda x: x.mT.exp().squeeze_(), 0),
        (lambda x: torch.nonzero(x[:, 0, 0]).squeeze(), 0),
        (
            lambda x: torch.cond(
                x.sum() > 0, lambda x: x[..., :1].exp().squeeze(), lambda x: x[:, 0, 1].exp(), (x,)
            ),
            0,
        ),
    ],
)
def test_a_size_that_may_be_1_is_an_error(function: Callable[[torch.Tensor], torch.Tensor], dim: int) -> None:
    exported = export(function, X, dynamic_shapes=({0: UP_TO_8},))
    problems = exported_problems(exported)
    assert [problem.code for problem in problems] == ["DC205"]
    assert f"drops dimension {dim} of its operand" in problems[0].message
    location = problems[0].location
    assert location is not None and location.function == "forward"
    with pytest.raises(DelegatecError, match="drops dimension"):
        to_edge(exported)


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (lambda x: x.squeeze(1), UP_TO_8),
        (lambda x: x.squeeze(2), UP_TO_8),
        (lambda x: x.squeeze(), FROM_2),
        (lambda x: torch.cat([x, x]).squeeze(), UP_TO_8),  # an even number of rows
        (lambda x: torch.nonzero(x[:, 0, 0]).squeeze(1), UP_TO_8),
    ],
)
def test_other_sizes_are_right(function: Callable[[torch.Tensor], torch.Tensor], rows: Dim) -> None:
    exported = export(function, X, dynamic_shapes=({0: rows},))
    assert not exported_problems(exported)
    to_edge(exported)
