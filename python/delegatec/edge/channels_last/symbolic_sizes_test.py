# SPDX-License-Identifier: Apache-2.0
"""The layout of programs with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from delegatec.edge.channels_last.optimize import optimize_layout
from delegatec.edge.channels_last.symbolic_sizes import SymbolicSizes
from delegatec.edge.channels_last.testing import channels_last, permutations
from delegatec.edge.testing import assert_computes, edge
from delegatec.edge.testing.networks import NETWORKS
from delegatec.edge.verifier import verify

_BATCH: Final = Dim("batch", min=1, max=64)


@pytest.mark.parametrize("name", [*NETWORKS][::3])
def test_batches_of_any_size(name: str) -> None:
    torch.manual_seed(0)
    network, inputs, count = NETWORKS[name]
    model, x = network().eval(), inputs()[:2]
    program = channels_last(model, x, dynamic_shapes=({0: _BATCH},))
    assert optimize_layout(program)
    verify(program)
    assert permutations(program) <= count
    assert not optimize_layout(program)
    for batch in (1, 2, 3):
        y = torch.cat([x, x * 0.5])[:batch]
        assert_computes(program, model(y), y, atol=1e-4, rtol=1e-4)


def _tokens(x: Tensor) -> Any:
    """Rows and columns as tokens, pairs of tokens, and back."""
    batch, channels, height, width = x.shape
    tokens = x.relu().permute(0, 2, 3, 1).reshape(batch, height * width, channels).tanh()
    pairs = tokens.view(batch, height * width // 2, 2, channels).sum(2)
    image = tokens.view(batch, height, width, channels).permute(0, 3, 1, 2).sigmoid()
    return image.permute(0, 2, 3, 1).abs(), pairs


def _joined(x: Tensor) -> Tensor:
    """Concatenates images along a symbolic size, so that their sum is another symbol."""
    y = torch.cat([x, x[:, :, 1:]], 2).permute(0, 2, 3, 1).relu()
    return (y * 2).permute(0, 3, 1, 2).exp().permute(0, 2, 3, 1).flatten(1, 2)


def _remaining(x: Tensor) -> Tensor:
    """Creates rows whose number decreases with a symbolic size."""
    rows = x.new_ones(x.shape[0], 3, 20 - 2 * x.shape[2], x.shape[3])
    return ((x.sum(2, keepdim=True) * rows).permute(0, 2, 3, 1).relu().permute(0, 3, 1, 2) * 2).permute(
        0, 2, 3, 1
    )


def _selected(x: Tensor) -> Tensor:
    """Selects the row in the middle."""
    rows = x.permute(0, 2, 3, 1).relu().select(1, x.shape[2] // 2)
    return (rows * 2).transpose(1, 2).exp().transpose(1, 2)


@pytest.mark.parametrize("function", [_tokens, _joined, _remaining, _selected])
def test_sizes_that_are_joined_and_divided(function: Callable[..., Any]) -> None:
    sizes = {
        0: _BATCH,
        2: 2 * Dim("half", min=1, max=32 if function is not _remaining else 4),
        3: Dim("width", min=2, max=64),
    }
    x = torch.randn(2, 3, 4, 6)
    program = edge(function, x, dynamic_shapes=(sizes,), passes=())
    before = permutations(program)
    assert optimize_layout(program)
    verify(program)
    assert permutations(program) < before
    for batch, height, width in ((1, 2, 2), (3, 6, 5), (2, 4, 6)):
        y = torch.randn(batch, 3, height, width)
        assert_computes(program, function(y), y)


def test_symbolic_sizes_are_restored() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1, 2).relu()

    x = torch.randn(2, 3, 5)
    program = edge(Model(), x, dynamic_shapes=({0: _BATCH, 1: Dim("rows", max=100)},))
    shapes = [str(node.meta.get("val")) for node in program.graph.nodes]
    sizes = SymbolicSizes(program)
    assert sizes.encode()
    relu = next(node for node in program.graph.nodes if "relu" in node.name)
    (x_node,) = program.user_inputs()
    rows = x_node.meta["val"].shape
    assert all(type(size) is int for size in rows) and rows[0] != rows[1]
    assert tuple(relu.meta["val"].shape) == (rows[0], rows[1] * 5)
    sizes.decode()
    assert [str(node.meta.get("val")) for node in program.graph.nodes] == shapes
