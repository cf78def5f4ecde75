# SPDX-License-Identifier: Apache-2.0
"""The layout of networks: as few permutations as possible, and the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.edge.channels_last.optimize import optimize_layout
from delegatec.edge.channels_last.testing import channels_last, permutations
from delegatec.edge.testing import assert_computes
from delegatec.edge.testing.networks import NETWORKS
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


def _centered(x: torch.Tensor) -> torch.Tensor:
    """Subtracts one element of four dimensions, where layouts drop those of size 1."""
    x = x.flatten(2).flip(2).unsqueeze(3).permute(0, 2, 3, 1)
    centered = x - x.mean((1, 2, 3), keepdim=True)
    return (centered * centered).mean((1, 2))


def _strided(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(x, torch.full((2, 4, 1, 1), 0.5), stride=2)


def test_a_computed_weight_in_groups_is_not_permuted() -> None:
    """Three groups with two output channels each: only dimensions of size 1 move."""

    def model(weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv1d(images, weight, groups=3)

    images, weight = torch.randn(3, 3, 2), torch.randn(6, 1, 2)
    program = channels_last(model, weight)
    assert optimize_layout(program)
    verify(program)
    assert_computes(program, model(weight), weight)
    assert permutations(program) == 0


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


@pytest.mark.parametrize(
    ("function", "count"),
    [
        pytest.param(lambda x: x.argmax(1), 1, id="position"),
        pytest.param(lambda x: x.argmax(), 2, id="position among all"),
        pytest.param(torch.nn.functional.hardswish, 2, id="without a tag"),
        pytest.param(lambda x: torch.cat([x, x[:, :0].relu()], 1), 2, id="empty"),
        pytest.param(lambda x: x.sum(), 1, id="one number"),
        pytest.param(lambda x: x.sum().flip(-1), 1, id="a flipped number"),
        pytest.param(lambda x: x.mean((0, 2)) * x.amax(), 2, id="two reductions"),
        pytest.param(lambda x: x.expand(3, -1, -1, -1).flip(0, 2), 2, id="copies"),
        pytest.param(lambda x: torch.where(x > 0, x, x.new_full((), 2.0)), 2, id="a scalar"),
        pytest.param(_centered, 2, id="one element"),
        pytest.param(lambda x: torch.stack([x, x + 1], 2), 2, id="stack"),
        pytest.param(lambda x: x.repeat(1, 2, 1, 3), 2, id="repeated"),
        pytest.param(lambda x: x.cumsum(3).index_select(1, torch.tensor([2, 0])), 2, id="indices"),
        pytest.param(lambda x: x.std((2, 3)), 1, id="deviation"),
        pytest.param(lambda x: (x[:, 1], x[..., 0]), 2, id="selected"),
        pytest.param(lambda x: _strided(x.transpose(2, 3).relu()), 3, id="strided pixels"),
    ],
)
def test_calls_after_a_convolution(function: Callable[..., Any], count: int) -> None:
    torch.manual_seed(0)
    conv, x = torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 6, 7)
    program = channels_last(lambda x: function(conv(x)), x)
    optimize_layout(program)
    verify(program)
    assert_computes(program, function(conv(x)), x, atol=1e-5)
    assert permutations(program) <= count
