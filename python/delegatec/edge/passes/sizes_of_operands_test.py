# SPDX-License-Identifier: Apache-2.0
"""Sizes that a program reads from data are sizes of the tensor that is viewed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from delegatec.edge.passes.sizes_of_operands import depends_on_data, take_sizes_of_operands
from delegatec.edge.symbols import is_scalar
from delegatec.edge.testing import assert_computes, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
_ROWS = torch.arange(256.0).view(64, 4)


def _count(x: Tensor) -> Any:
    count = x.item()
    torch._check(count >= 1)
    torch._check(count <= 16)
    return count


def _unchanged(x: Tensor) -> Tensor:
    count = _count(x)
    return _ROWS[:count].sin().view(1, count, 4)


def _divided(x: Tensor) -> Tensor:
    count = _count(x)
    return _ROWS[: 4 * count].sin().view(count, 4, 4)


def _multiplied(x: Tensor) -> Tensor:
    count = _count(x)
    return _ROWS[:count].sin().view(4 * count)


@pytest.mark.parametrize("function", [_unchanged, _divided, _multiplied])
def test_sizes_of_views(function: Callable[[Tensor], Tensor]) -> None:
    program = edge(function, torch.tensor(3))
    assert take_sizes_of_operands(program)
    verify(program)
    views = [node for node in program.graph.nodes if node.target is aten.view.default]
    scalars = [each for view in views for each in view.all_input_nodes if is_scalar(each)]
    assert scalars and not any(map(depends_on_data, scalars))
    assert not take_sizes_of_operands(program)
    for count in (1, 5, 16):
        assert_computes(program, function(torch.tensor(count)), torch.tensor(count))


def test_sizes_of_inputs_do_not_change() -> None:
    def split(x: Tensor) -> Tensor:
        return x.sin().view(x.shape[0], 2, 2)

    shapes = ({0: Dim("n", min=1, max=8)},)
    assert not take_sizes_of_operands(edge(split, torch.ones(3, 4), dynamic_shapes=shapes))
