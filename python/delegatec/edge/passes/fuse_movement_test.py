# SPDX-License-Identifier: Apache-2.0
"""Movements that follow each other become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.fuse_movement import fuse_movement
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        pytest.param(lambda x: x.view(6, 4).view(-1).view(8, 3), aten.view.default, id="view"),
        pytest.param(lambda x: x.permute(1, 2, 0).permute(2, 0, 1), aten.permute.default, id="permute back"),
        pytest.param(lambda x: x.permute(-1, 0, 1).permute(1, -1, 0), aten.permute.default, id="negative"),
        pytest.param(lambda x: x.mT.transpose(0, 1).mT, aten.permute.default, id="three"),
        pytest.param(lambda x: x[:, :1].expand(2, 5, 4).expand(3, 2, 5, 4), aten.expand.default, id="expand"),
    ],
)
def test_one_is_left(function: Callable[..., Any], operator: Any) -> None:
    program = edge(function, X, passes=(fuse_movement, eliminate_dead_code))
    assert called(program).count(operator) == 1
    assert_computes(program, function(X), X)


def test_different_movements_stay() -> None:
    program = edge(lambda x: x.permute(1, 0, 2).reshape(3, 8), X, passes=(fuse_movement, eliminate_dead_code))
    assert called(program) == [aten.permute.default, aten.view.default]


def test_a_movement_that_others_read_stays_for_them() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.view(-1)
        return flat + 1, flat.view(4, 6)

    program = edge(function, X, passes=(fuse_movement, eliminate_dead_code))
    assert called(program).count(aten.view.default) == 2
    assert_computes(program, function(X), X)


def test_dynamic_views() -> None:
    program = edge(
        lambda x: x.view(x.shape[0], 12).view(-1, 6) + 1,
        X,
        dynamic_shapes=({0: Dim("rows", min=2, max=9)},),
        passes=(fuse_movement, eliminate_dead_code),
    )
    assert called(program).count(aten.view.default) == 1
    for rows in (2, 5):
        x = torch.ones(rows, 3, 4)
        assert_computes(program, x.view(-1, 6) + 1, x)
