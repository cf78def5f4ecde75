# SPDX-License-Identifier: Apache-2.0
"""Repeated quantization disappears where it changes nothing, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.scales import scale_of
from delegatec.backends.xnnpack.quantized.testing import qdq
from delegatec.backends.xnnpack.quantized.value_sets import remove_repeated
from delegatec.edge.passes.sign_activations import sign_activations
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import assert_computes, called, edge
from delegatec.edge.verifier import verify

PRESERVED = [QUANTIZE, DEQUANTIZE, torch.ops.aten.relu.default, torch.ops.aten.hardtanh.default]
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 3


def converted(function: Callable[[Tensor], Tensor]) -> EdgeProgram:
    program = edge(function, X, preserve=PRESERVED, passes=())
    remove_repeated(program)
    verify(program)
    assert_computes(program, function(X), X)
    return program


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x.reshape(6, 64), id="view"),
        pytest.param(lambda x: x.permute(1, 0, 3, 2), id="permute"),
        pytest.param(lambda x: x[:, 1:], id="slice"),
        pytest.param(lambda x: torch.cat([x, x], 1), id="cat"),
        pytest.param(lambda x: f.pad(x, (1, 2)), id="pad"),
        pytest.param(lambda x: f.max_pool2d(x, 3, 2, 1), id="maxima"),
        pytest.param(lambda x: f.relu(x), id="relu"),
        pytest.param(lambda x: f.hardtanh(x, -1.0, 2.5), id="bounds among the quantized values"),
        pytest.param(lambda x: torch.split(x, [1, 2], 1)[1], id="split"),
    ],
)
def test_moves_preserve_quantized_values(function: Callable[[Tensor], Tensor]) -> None:
    program = converted(lambda x: qdq(function(qdq(x))).neg())
    assert called(program).count(QUANTIZE) == 1


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: qdq(x.neg()), id="another call"),
        pytest.param(lambda x: qdq(x, 0.05), id="another scale"),
        pytest.param(lambda x: qdq(x, zero=4), id="another zero"),
        pytest.param(lambda x: qdq(f.hardtanh(x, -1.0, 2.51)), id="a bound between quantized values"),
        pytest.param(lambda x: qdq(f.pad(x, (1, 2), value=0.01)), id="padding between quantized values"),
        pytest.param(lambda x: qdq(torch.cat([x, x.neg()], 1)), id="one operand"),
        pytest.param(lambda x: qdq(x.mean(1)), id="mean"),
    ],
)
def test_others_do_not(function: Callable[[Tensor], Tensor]) -> None:
    assert called(converted(lambda x: function(qdq(x)))).count(QUANTIZE) == 2


def test_unsigned_quantized_values_become_signed() -> None:
    quantized = torch.ops.quantized_decomposed

    def function(x: Tensor) -> Tensor:
        quantized_values = quantized.quantize_per_tensor(x, 0.05, 100, 0, 255, torch.uint8)
        result: Tensor = quantized.dequantize_per_tensor(quantized_values, 0.05, 100, 0, 255, torch.uint8)
        return result

    program = edge(function, X, preserve=PRESERVED, passes=())
    assert sign_activations(program, lambda each: scale_of(each) is not None)
    verify(program)
    (quantized_values,) = program.graph.find_nodes(op="call_function", target=QUANTIZE)
    assert quantized_values.meta["val"].dtype == torch.int8
    assert_computes(program, function(X), X)
    # as an output, they stay
    program = edge(
        lambda x: quantized.quantize_per_tensor(x, 0.05, 100, 0, 255, torch.uint8), X, preserve=PRESERVED
    )
    assert not sign_activations(program, lambda each: scale_of(each) is not None)
