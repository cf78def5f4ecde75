# SPDX-License-Identifier: Apache-2.0
"""Zero padding is folded into convolutions that can represent it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from delegatec.edge.passes.eliminate_dead_code import eliminate_dead_code
from delegatec.edge.passes.fold_padding import fold_padding
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.randn(1, 2, 6, 5, generator=torch.Generator().manual_seed(0))
W = torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(1))


def _folds(function: Callable[..., Any], *inputs: torch.Tensor) -> bool:
    program = edge(function, *inputs, passes=())
    changed = fold_padding(program)
    eliminate_dead_code(program)
    assert_computes(program, function(*inputs), *inputs, atol=1e-5)
    assert changed == (aten.constant_pad_nd.default not in called(program))
    return changed


@pytest.mark.parametrize("pad", [(1, 1, 1, 1), (2, 2), (0, 0, 1, 1), (1, 1, 2, 2, 0, 0)])
@pytest.mark.parametrize("own", [0, (1, 2)])
def test_symmetric_zeros_move(pad: tuple[int, ...], own: Any) -> None:
    assert _folds(lambda x, w: F.conv2d(F.pad(x, pad), w, padding=own, stride=2), X, W)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x, w: F.conv2d(F.pad(x, (0, 1, 0, 1)), w), id="one side only"),
        pytest.param(lambda x, w: F.conv2d(F.pad(x, (1, 1), value=0.5), w), id="not zero"),
        pytest.param(lambda x, w: F.conv2d(F.pad(x, (-1, -1, 1, 1)), w), id="cropped"),
        pytest.param(lambda x, w: F.conv2d(F.pad(x, (0, 0, 0, 0, 0, 0, 1, 1)), w), id="batch"),
        pytest.param(lambda x, w: F.conv2d(F.pad(x[:, :1], (0, 0, 0, 0, 0, 1)), w), id="channels"),
        pytest.param(lambda x, w: F.conv_transpose2d(F.pad(x, (1, 1)), w.transpose(0, 1)), id="transposed"),
    ],
)
def test_other_padding_stays(function: Callable[..., Any]) -> None:
    assert not _folds(function, X, W)


def test_padding_that_others_read_stays_for_them() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        padded = F.pad(x, (1, 1, 1, 1))
        return F.conv2d(padded, w), padded + 1

    program = edge(function, X, W, passes=(fold_padding,))
    assert called(program).count(aten.constant_pad_nd.default) == 1
    (convolution,) = program.graph.find_nodes(op="call_function", target=aten.convolution.default)
    assert convolution.args[0] is program.placeholders()[0] and convolution.args[4] == [1, 1]
    assert_computes(program, function(X, W), X, W, atol=1e-5)


def test_one_dimension() -> None:
    assert _folds(lambda x, w: F.conv1d(F.pad(x, (2, 2)), w), X[:, :, 0], W[..., 0])
