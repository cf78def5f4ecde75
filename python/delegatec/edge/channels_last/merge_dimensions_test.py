# SPDX-License-Identifier: Apache-2.0
"""Fewer dimensions of calls that treat several alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge import to_edge
from delegatec.edge.arguments import operand_nodes
from delegatec.edge.channels_last.merge_dimensions import merge_dimensions
from delegatec.edge.channels_last.rules import is_pointwise
from delegatec.edge.interpret import interpret
from delegatec.edge.verifier import verify


class _Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function
        self.table = torch.nn.Buffer(torch.linspace(-1, 1, 16).view(1, 1, 1, 4, 4))

    def forward(self, *args: Tensor) -> Any:
        return self._function(self.table, *args)


def _broadcast(node: Node) -> list[Node]:
    return operand_nodes(node) if is_pointwise(node) else []


def _merged(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Checks that results are the same; returns the shapes of all calls but views."""
    generator = torch.Generator().manual_seed(0)
    args = tuple(torch.randn(*shape, generator=generator) for shape in shapes)
    program = to_edge(torch.export.export(_Call(function), args))
    wanted = interpret(program, args)
    merge_dimensions(program, _broadcast)
    verify(program)
    for result, other in zip(interpret(program, args), wanted, strict=True):
        torch.testing.assert_close(result, other)
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    return [tuple(node.meta["val"].shape) for node in calls if "view" not in str(node.target)]


def test_statistics_of_groups() -> None:
    """Small operands are expanded, and the innermost dimension has 16 elements."""

    def function(table: Tensor, x: Tensor) -> Tensor:
        return (x - x.sum((1, 2, 4), keepdim=True) / 9) * table

    shapes = _merged(function, (1, 6, 8, 4, 4))
    assert [shape for shape in shapes if len(shape) == 4 and shape[2] != 1] == [(1, 6, 8, 16)] * 2
    assert (1, 1, 1, 4, 1) in shapes  # the second reduction of the sum


def test_values_that_share_large_operands() -> None:
    """All of them have the same dimensions."""
    shapes = _merged(lambda table, x: (x.exp(), x * x, x.amax((1, 2), keepdim=True)), (2, 3, 4, 2, 8))
    assert shapes[:2] == [(1, 6, 4, 16)] * 2 or len({*shapes[:2]}) == 1
    assert all(len(shape) <= 5 for shape in shapes)


@pytest.mark.parametrize(
    "other", [(2, 1, 4, 1, 6), (1, 1, 1, 1, 1), (2, 3, 4, 5, 6), (1, 1, 4, 5, 6), (6,), (2, 3, 1, 1, 1)]
)
def test_operands_that_broadcast(other: tuple[int, ...]) -> None:
    """Operands of any shape have the same results."""
    _merged(lambda table, x, y: (x + y) * (x - y).sum((0, 3), keepdim=True), (2, 3, 4, 5, 6), other)


@pytest.mark.parametrize("other", [(16,), (4, 16), (12, 1, 1, 1), ()])
def test_operands_of_lower_rank(other: tuple[int, ...]) -> None:
    """They broadcast along dimensions that are merged."""
    factor = torch.linspace(-1, 1, torch.Size(other).numel()).view(other)
    shapes = _merged(lambda table, x: x * factor, (1, 12, 2, 4, 16))
    assert [len(shape) for shape in shapes] == [4]


def test_large_operands_are_not_expanded() -> None:
    """Dimensions remain if an operand would have as many elements as the result."""
    shapes = _merged(lambda table, x, y: x * y, (2, 3, 4, 5, 6), (2, 1, 4, 1, 6))
    assert shapes == [(2, 3, 4, 5, 6)]


def test_a_few_dimensions_remain() -> None:
    """Calls with four dimensions remain."""
    assert _merged(lambda table, x: x * 2, (2, 3, 4, 5)) == [(2, 3, 4, 5)]
