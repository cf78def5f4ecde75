# SPDX-License-Identifier: Apache-2.0
"""Constant indices: slices, negative indices, and indices that do not change."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        (lambda x: x[..., [-2]], [aten.slice.Tensor]),
        (lambda x: x[:, [0, 2]] + 1, [aten.slice.Tensor, aten.add.Scalar]),
        (lambda x: x[:, :, torch.tensor([-3, -2], dtype=torch.int32)], [aten.slice.Tensor]),
        (lambda x: x[..., [-1, 0]], [aten.index.Tensor]),
        (lambda x: x[..., [1, 1]], [aten.index.Tensor]),
        (lambda x: x[..., [2, 0]], [aten.index.Tensor]),
        (lambda x: x[:, [[-1, 0], [1, -2]]], [aten.index.Tensor]),
        (lambda x: x[[-1], :, [0, -1]], [aten.index.Tensor]),
        (lambda x: x[:, [True, False, True]], [aten.slice.Tensor]),
    ],
)
def test_same_results(
    function: Callable[[torch.Tensor], torch.Tensor], operators: list[torch._ops.OpOverload]
) -> None:
    program = edge(function, X)
    assert called(program) == operators
    assert_computes(program, function(X), X)


def test_indices_of_one_dimension_are_counted_from_0() -> None:
    program = edge(lambda x: x[..., [-1, 0]], X)
    (index,) = (node for node in program.graph.nodes if node.target is aten.index.Tensor)
    assert program.constants[index.args[1][2].name].tolist() == [3, 0]


def test_a_dynamic_dimension_does_not_change() -> None:
    program = edge(lambda x: x[:, [-1]], X, dynamic_shapes=({1: torch.export.Dim("size", min=2, max=8)},))
    assert aten.index.Tensor in called(program)
