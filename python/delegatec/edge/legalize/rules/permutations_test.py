# SPDX-License-Identifier: Apache-2.0
"""Permutations in other forms have the results of eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Final

import pytest
import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import shape_of
from delegatec.edge.legalize.engine import legalize
from delegatec.edge.legalize.rule import Refusal, Rule
from delegatec.edge.legalize.rules.shape import PERMUTE_HALVES, PERMUTE_JOINED
from delegatec.edge.testing import assert_computes, call_program
from delegatec.edge.verifier import verify

aten = torch.ops.aten


class _Limited:
    """A target that permutes few dimensions of few elements."""

    full = True

    def __init__(self, rank: int, elements: int) -> None:
        self.rank: Final = rank
        self.elements: Final = elements
        self.legal = 0

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        if node.target is not aten.permute.default:
            return None
        if len(shape_of(node)) > self.rank or node.meta["val"].numel() > self.elements:
            return Refusal("shape", "it is large")
        self.legal += 1
        return None

    def rules(self, node: Node) -> Sequence[Rule]:
        return [each for each in (PERMUTE_JOINED, PERMUTE_HALVES) if node.target is each.target]


def _check(shape: Sequence[int], order: Sequence[int], target: _Limited) -> None:
    x = torch.arange(torch.Size(shape).numel()).reshape(*shape)
    program, wanted, tensors = call_program(aten.permute.default, (x, [*order]))
    assert legalize(program, target) == []
    verify(program)
    assert_computes(program, wanted, *tensors)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 5), (1, 1, 6), (1, 3, 1, 4)], ids=str)
def test_all_orders(shape: tuple[int, ...]) -> None:
    for order in permutations(range(len(shape))):
        # permutations that move nothing become views
        _check(shape, order, _Limited(rank=3, elements=1000))
        _check(shape, order, _Limited(rank=4, elements=7))


def test_dimensions_that_stay_together_are_joined() -> None:
    target = _Limited(rank=2, elements=1000)
    _check((2, 3, 1, 4, 5), (3, 4, 2, 0, 1), target)
    assert target.legal == 1


def test_parts() -> None:
    target = _Limited(rank=3, elements=60)
    _check((3, 21, 5), (2, 0, 1), target)
    assert target.legal == 8


def test_few_parts() -> None:
    """Sixteen parts at most: a target that supports none of them is not asked about every element."""
    program, _, _ = call_program(aten.permute.default, (torch.zeros(512, 4, 3), [2, 1, 0]))
    ((node, refusal),) = legalize(program, _Limited(rank=3, elements=100))
    assert node.target is aten.permute.default and refusal.message == "it is large"
    assert [each.target for each in program.graph.nodes if each.op == "call_function"] == [node.target]
