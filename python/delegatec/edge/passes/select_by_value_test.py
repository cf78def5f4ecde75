# SPDX-License-Identifier: Apache-2.0
"""Positions that tensors hold are indices; scalars stay."""

from __future__ import annotations

import pytest
import torch

from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.select_by_value import select_by_value
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    "position", [torch.tensor(2), torch.tensor(-1), torch.tensor([1], dtype=torch.int32)]
)
def test_a_position_in_a_tensor_is_an_index(position: torch.Tensor) -> None:
    def function(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x.select(1, at.item())  # type: ignore[arg-type]

    program = edge(function, X, position, passes=(select_by_value, eliminate_dead_code))
    assert aten.select.int not in called(program)
    assert aten._local_scalar_dense.default not in called(program)
    assert_computes(program, function(X, position), X, position)


def test_a_number_stays() -> None:
    program = edge(lambda x: x.select(1, 2), X, passes=(select_by_value,))
    assert called(program) == [aten.select.int]
