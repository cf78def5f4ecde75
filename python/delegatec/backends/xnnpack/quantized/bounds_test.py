# SPDX-License-Identifier: Apache-2.0
"""Quantized values between other bounds than those of int8, and of more bits, as bounds of floats."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.common.testing import X
from delegatec.backends.xnnpack.quantized.bounds import clamp_quantized_values
from delegatec.backends.xnnpack.quantized.testing import Layer, qdq
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.grid import operations, rejected
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE
from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
FLOATS = torch.randn(64, 8, generator=torch.Generator().manual_seed(0)) * 3
SYMMETRIC = (0.0625, 0, -127, 127, torch.int8)
WIDE = (2.0**-12, 0, -32767, 32767, torch.int16)
PRESERVED = [QUANTIZE, DEQUANTIZE, aten.gelu.default, aten.relu.default]

Parameters = tuple[float, int, int, int, torch.dtype]


def rounded(x: Tensor, parameters: Parameters) -> Tensor:
    result: Tensor = DEQUANTIZE(QUANTIZE(x, *parameters), *parameters)
    return result


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param(SYMMETRIC, id="symmetric"),
        pytest.param((0.5, 3, -8, 7, torch.int8), id="int4 in int8"),
        pytest.param((0.0625, 100, 0, 127, torch.uint8), id="7 bits without sign"),
    ],
)
def test_quantized_values_get_the_range_of_their_dtype(parameters: Parameters) -> None:
    program = edge(lambda x: rounded(x.neg(), parameters), FLOATS, preserve=PRESERVED, passes=())
    assert clamp_quantized_values(program)
    assert called(program) == [aten.neg.default, aten.clamp.default, QUANTIZE, DEQUANTIZE]
    (call,) = program.graph.find_nodes(op="call_function", target=QUANTIZE)
    limits = torch.iinfo(parameters[-1])
    assert call.args[3:5] == (limits.min, limits.max)
    wanted = rounded(FLOATS.neg(), parameters)
    scale, zero, least, most, _ = parameters
    assert [wanted.min(), wanted.max()] == [(least - zero) * scale, (most - zero) * scale]
    assert_computes(program, wanted, FLOATS)
    assert not clamp_quantized_values(program)


@pytest.mark.parametrize(
    ("function", "is_bounded"),
    [
        (lambda x: rounded(x, SYMMETRIC).view(8, 64), True),
        (lambda x: rounded(x, SYMMETRIC).relu(), True),
        (lambda x: f.gelu(rounded(x, SYMMETRIC)), True),
        (lambda x: x.clamp(-7.9, 7.9), True),
        (lambda x: x.clamp(-8.1, 7.9), False),
        (lambda x: rounded(x, SYMMETRIC) * 2, False),
    ],
)
def test_values_between_the_bounds_are_not_bounded_again(
    function: Callable[[Tensor], Tensor], is_bounded: bool
) -> None:
    program = edge(lambda x: rounded(function(x), SYMMETRIC), FLOATS, preserve=PRESERVED, passes=())
    before = called(program).count(aten.clamp.default)
    clamp_quantized_values(program)
    is_input_bounded = called(program).count(QUANTIZE) > 1
    assert called(program).count(aten.clamp.default) == before + is_input_bounded + (not is_bounded)


def test_floats_quantized_to_wider_dtypes_stay_floats() -> None:
    program = edge(lambda x: rounded(x, WIDE).exp(), FLOATS, preserve=PRESERVED, passes=())
    assert clamp_quantized_values(program)
    assert called(program) == [aten.clamp.default, aten.exp.default]
    (call,) = program.graph.find_nodes(op="call_function", target=aten.clamp.default)
    assert call.args[1:] == (-32767 / 4096, 32767 / 4096)


def test_bounds_are_limits_of_the_operation_before_them() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        return rounded(f.linear(qdq(x), layer.weight()), SYMMETRIC)

    (blob,) = compile_module(Layer(function, (8, 8)), (FLOATS,)).blobs()
    assert operations(blob) == ["Convert", "FullyConnected", "Convert"]


def test_wider_quantized_values_that_leave_a_delegate_are_computed_outside() -> None:
    def function(_: Layer, x: Tensor) -> tuple[Tensor, Tensor]:
        quantized_values = QUANTIZE(x.exp(), *WIDE)
        return quantized_values, DEQUANTIZE(quantized_values, *WIDE).neg()

    assert "another dtype" in str(rejected(Layer(function), (X,)))
