# SPDX-License-Identifier: Apache-2.0
"""Quantization is hoisted above moves, and disappears before clamps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.hoist_quantize import (
    quantize_after_clamps,
    quantize_before_moves,
    snap_bounds,
)
from delegatec.backends.xnnpack.quantized.testing import qdq
from delegatec.backends.xnnpack.quantized.value_sets import remove_repeated
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

aten = torch.ops.aten
PRESERVED = [QUANTIZE, DEQUANTIZE, aten.relu.default, aten.hardtanh.default]
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 3


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: f.pad(x, (1, 2)), id="pad"),
        pytest.param(lambda x: x.permute(1, 0, 3, 2).reshape(6, 64), id="two moves"),
        pytest.param(lambda x: x[:, 1:], id="slice"),
    ],
)
def test_moves_of_floats_become_those_of_quantized_values(function: Callable[[Tensor], Tensor]) -> None:
    program = edge(lambda x: qdq(function(x.neg())).exp(), X, preserve=PRESERVED, passes=())
    assert quantize_before_moves(program)
    remove_repeated(program)
    verify(program)
    assert called(program)[:3] == [aten.neg.default, QUANTIZE, DEQUANTIZE]
    assert called(program).count(QUANTIZE) == 1
    assert_computes(program, qdq(function(X.neg())).exp(), X)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(
            lambda x: qdq(f.pad(x.neg(), (1, 2), value=0.01)), id="padding between quantized values"
        ),
        pytest.param(lambda x: qdq(x.neg()), id="no move"),
        pytest.param(lambda x: (lambda y: qdq(y) + y.exp())(f.pad(x.neg(), (1, 2))), id="another reader"),
    ],
)
def test_other_quantization_stays(function: Callable[[Tensor], Tensor]) -> None:
    assert not quantize_before_moves(edge(function, X, preserve=PRESERVED, passes=()))


def test_a_value_before_a_clamp_is_quantized_once() -> None:
    def function(x: Tensor) -> Tensor:
        return qdq(f.hardtanh(qdq(x.neg(), 0.02, -20), -1.0, 6.0), 0.03, -80)

    program = edge(function, X, preserve=PRESERVED, passes=())
    assert quantize_after_clamps(program)
    verify(program)
    assert called(program) == [aten.neg.default, aten.clamp.default, QUANTIZE, DEQUANTIZE]
    (clamp,) = program.graph.find_nodes(op="call_function", target=aten.clamp.default)
    # the first range ends before the upper bound
    assert clamp.args[1:] == pytest.approx((-1.0, 147 * 0.02))
    assert_computes(program, function(X), X, atol=0.031, rtol=0)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: qdq(f.hardtanh(qdq(x.neg()), -1.0, 6.0)), id="one scale"),
        pytest.param(lambda x: f.hardtanh(qdq(x.neg()), -1.0, 6.0), id="numbers"),
        pytest.param(lambda x: qdq(f.hardtanh(qdq(x), -1.0, 6.0), 0.03), id="an input"),
        pytest.param(
            lambda x: (lambda y: qdq(f.hardtanh(y, -1.0, 6.0), 0.03) + y)(qdq(x.neg())), id="another reader"
        ),
    ],
)
def test_other_clamps_stay(function: Callable[[Tensor], Tensor]) -> None:
    assert not quantize_after_clamps(edge(function, X, preserve=PRESERVED, passes=()))


def test_bounds_become_quantized_values() -> None:
    def function(x: Tensor) -> Tensor:
        return qdq(f.hardtanh(qdq(x), -1.03, 60.0)).exp()

    program = edge(function, X, preserve=PRESERVED, passes=())
    assert snap_bounds(program)
    remove_repeated(program)
    verify(program)
    assert called(program).count(QUANTIZE) == 1
    assert_computes(program, function(X), X)


def test_bounds_of_other_scales_stay() -> None:
    program = edge(lambda x: qdq(f.hardtanh(qdq(x), -1.03, 2.0), 0.03), X, preserve=PRESERVED, passes=())
    assert not snap_bounds(program)
