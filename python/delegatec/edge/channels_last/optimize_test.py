# SPDX-License-Identifier: Apache-2.0
"""The layout of networks: as few permutations as possible, and the same results."""

from __future__ import annotations

import pytest
import torch

from delegatec.edge.channels_last.networks import NETWORKS
from delegatec.edge.channels_last.optimize import optimize_layout
from delegatec.edge.channels_last.testing import channels_last, permutations
from delegatec.edge.testing import assert_computes
from delegatec.edge.verifier import verify

aten = torch.ops.aten


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, batch: int) -> None:
    torch.manual_seed(0)
    network, inputs, count = NETWORKS[name]
    model, x = network().eval(), inputs()[:batch]
    program = channels_last(model, x)
    assert optimize_layout(program)
    verify(program)
    assert_computes(program, model(x), x, atol=1e-4, rtol=1e-4)
    assert permutations(program) <= count
    assert not optimize_layout(program)


def test_calls_that_are_illegal_in_another_order_stay() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.conv2d(x, torch.ones(4, 3, 1, 1)).relu()
        x = torch.nn.functional.conv2d(x, torch.ones(4, 4, 1, 1)).softmax(2)
        return torch.nn.functional.conv2d(x, torch.ones(2, 4, 1, 1))

    x = torch.randn(1, 3, 5, 6)
    program = channels_last(model, x)
    assert optimize_layout(program, is_legal=lambda node: node.target is not aten._softmax.default)
    verify(program)
    assert_computes(program, model(x), x)
    (softmax,) = program.graph.find_nodes(op="call_function", target=aten._softmax.default)
    assert softmax.args[1] == 2
    assert permutations(program) == 4
    program = channels_last(model, x)
    before = str(program.graph)
    assert not optimize_layout(program, is_legal=lambda node: False)
    verify(program)
    assert str(program.graph) == before
