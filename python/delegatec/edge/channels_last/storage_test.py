# SPDX-License-Identifier: Apache-2.0
"""Values that one tensor has, each in a different order."""

from __future__ import annotations

import pytest
import torch

from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.layouts import Axes
from delegatec.edge.channels_last.storage import Storage, Stored
from delegatec.edge.channels_last.testing import permutations
from delegatec.edge.testing import assert_computes, edge

X = torch.randn(3, 1, 3, generator=torch.Generator().manual_seed(0))
FIRST, SECOND = ((0, 1, 3),), ((1, 1, 3),)
# The value that x stores in its own order, and its transpose.
ITSELF, TRANSPOSE = (FIRST, (), SECOND), (SECOND, (), FIRST)
SQUARE, SWAPPED, LINE = (FIRST, SECOND), (SECOND, FIRST), ((*FIRST, *SECOND),)


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        pytest.param([(ITSELF, SQUARE), (TRANSPOSE, SQUARE)], 1, id="the same axes"),
        pytest.param([(TRANSPOSE, SQUARE), (ITSELF, SQUARE)], 1, id="the same axes, permuted first"),
        pytest.param([(ITSELF, SWAPPED), (TRANSPOSE, SQUARE)], 1, id="the same order"),
        pytest.param([(ITSELF, SQUARE), (TRANSPOSE, SWAPPED)], 0, id="its own order"),
        pytest.param([(TRANSPOSE, LINE), (ITSELF, LINE), (TRANSPOSE, SQUARE)], 1, id="views"),
    ],
)
def test_values_in_one_tensor(wanted: list[tuple[Axes, Axes]], count: int) -> None:
    program = edge(lambda x: x.neg(), X, passes=())
    output = program.output_node()
    storage = Storage(Builder(program).at(output), {})
    (node,) = output.all_input_nodes
    found = [storage.arranged(Stored(node, axes), after) for axes, after in wanted]
    assert permutations(program) == count
    for each, (axes, after) in zip(found, wanted, strict=True):
        output.args = ((each,),)
        value = -X.squeeze(1) if axes is ITSELF else -X.squeeze(1).T
        value = value.T if after is SWAPPED else value
        assert_computes(program, value.reshape(each.meta["val"].shape), X)


def test_a_call_that_repeats_another_is_not_adopted() -> None:
    program = edge(lambda x: (x.neg().permute(2, 1, 0).neg(), x.neg().permute(2, 1, 0).cos()), X, passes=())
    permuted = program.graph.find_nodes(op="call_function", target=torch.ops.aten.permute.default)
    storage = Storage(Builder(program), {})
    (node, *_) = permuted[0].all_input_nodes
    assert storage.adopt(Stored(node, ITSELF), permuted[0], TRANSPOSE) is permuted[0]
    assert storage.adopt(Stored(node, TRANSPOSE), permuted[1], ITSELF) is permuted[0]
    assert storage.adopt(Stored(node, TRANSPOSE), permuted[1], TRANSPOSE) is node
