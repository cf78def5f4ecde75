# SPDX-License-Identifier: Apache-2.0
"""Padding becomes part of convolutions and maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last.fold_padding import fold_padding
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.optimize import optimize_layout
from delegatec.edge.channels_last.testing import channels_last
from delegatec.edge.program import EdgeProgram
from delegatec.edge.testing import assert_computes, called
from delegatec.edge.verifier import verify

aten = torch.ops.aten
X = torch.randn(1, 3, 8, 9, generator=torch.Generator().manual_seed(0))
torch.manual_seed(0)
CONV, OTHER = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3, 2, 1)


def _folded(function: Callable[[Tensor], Any], **options: Any) -> EdgeProgram:
    program = channels_last(function, X)
    optimize_layout(program)
    assert aten.constant_pad_nd.default in called(program)
    fold_padding(program, Facts(program.fixed_constants()), **options)
    verify(program)
    assert_computes(program, function(X), X, atol=1e-5)
    return program


def _paddings(program: EdgeProgram) -> list[list[int]]:
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    return [bind(node)["padding"] for node in nodes if "padding" in str(node.target._schema)]


@pytest.mark.parametrize(
    ("function", "paddings"),
    [
        pytest.param(lambda x: CONV(f.pad(x, (1, 2, 0, 3))), [[0, 3, 1, 2]], id="convolution"),
        pytest.param(
            lambda x: OTHER(f.pad(x, (0, 1, 0, 1))), [[1, 2, 1, 1]], id="with padding in the convolution"
        ),
        pytest.param(lambda x: CONV(f.pad(f.pad(x, (1, 0)), (0, 0, 2, 0))), [[2, 0, 1, 0]], id="twice"),
        pytest.param(lambda x: CONV(f.pad(x, (1, 1))[..., 1:]), [[0, 0, 0, 1]], id="some removed"),
        pytest.param(
            lambda x: f.max_pool2d(f.pad(x, (1, 0), value=float("-inf")), 2, 1), [[0, 0, 1, 0]], id="maxima"
        ),
        pytest.param(
            lambda x: f.max_pool2d(f.pad(x.relu(), (1, 1, 1, 1)), 3, 1), [[1, 1, 1, 1]], id="not negative"
        ),
    ],
)
def test_folds(function: Callable[[Tensor], Any], paddings: list[list[int]]) -> None:
    program = _folded(function)
    assert aten.constant_pad_nd.default not in called(program)
    assert aten.slice.Tensor not in called(program)
    assert _paddings(program) == paddings


def test_folds_into_several_calls() -> None:
    program = _folded(lambda x: (CONV(y := f.pad(x, (1, 0, 1, 0))), OTHER(y)))
    assert aten.constant_pad_nd.default not in called(program)
    assert _paddings(program) == [[1, 0, 1, 0], [2, 1, 2, 0]]


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: CONV(f.pad(x, (1, 1), value=1.0)), id="another value"),
        pytest.param(
            lambda x: nn.functional.conv2d(f.pad(x, (0, 0, 0, 0, 0, 1)), torch.ones(2, 4, 1, 1)),
            id="channels",
        ),
        pytest.param(lambda x: f.max_pool2d(f.pad(x, (1, 1)), 3, 1), id="maxima of negative values"),
        pytest.param(lambda x: f.max_pool2d(f.pad(x.relu(), (3, 0)), 3, 1), id="windows of padding"),
        pytest.param(lambda x: f.avg_pool2d(f.pad(x, (1, 1)), 3, 1), id="average"),
        pytest.param(lambda x: f.pad(CONV(x), (1, 1)), id="after it"),
    ],
)
def test_stays(function: Callable[[Tensor], Any]) -> None:
    assert aten.constant_pad_nd.default in called(_folded(function))


def test_stays_if_the_target_does_not_support_it() -> None:
    program = _folded(lambda x: CONV(f.pad(x, (1, 0))), is_legal=lambda _: False)
    assert aten.constant_pad_nd.default in called(program)
    assert NHWC.conv2d.default in called(program)
