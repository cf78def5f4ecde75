# SPDX-License-Identifier: Apache-2.0
"""Scales with zero points, and the operands of calls."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from torch import Tensor, nn

from delegatec.edge.quantization.operators import (
    DEQUANTIZING,
    QUANTIZATIONS,
    QUANTIZE,
    operands_of,
    quantized,
)
from delegatec.edge.quantization.scale import Quantization, quantization_of
from delegatec.edge.quantization.testing import INT8, Call, Constant, in_blocks, per_channel, per_group
from delegatec.edge.testing import edge

SCALE: Final = Quantization.full_range(torch.int8, 0.1, zero_point=3)


def test_a_scale_quantizes_as_eager_mode() -> None:
    x = torch.linspace(-20, 20, 1001)
    found = SCALE.quantize(x)
    assert torch.equal(found, QUANTIZE(x, *SCALE.arguments)) and found.dtype == torch.int8
    assert torch.equal(SCALE.dequantize(found), quantized.dequantize_per_tensor(found, *SCALE.arguments))
    assert SCALE.quantize(torch.tensor(12.0)).shape == ()
    assert SCALE.quantize(torch.tensor([torch.nan, torch.inf, -torch.inf])).tolist() == [0, 127, -128]


def test_floats_of_a_scale() -> None:
    assert SCALE.holds(0.0) and SCALE.holds(12.4) and not SCALE.holds(12.5) and not SCALE.holds(0.05)
    assert SCALE.nearest(0.12) == pytest.approx(0.1) and SCALE.nearest(1e9) == pytest.approx(12.4)
    assert (SCALE.value(3), SCALE.exactly(0.0), SCALE.limit) == (0.0, 3.0, 131)


def test_uint8_as_int8() -> None:
    found = Quantization.full_range(torch.uint8, 0.5, zero_point=100).signed()
    assert found == Quantization(torch.int8, (0.5,), -28, -128, 127, nan=-128)
    assert SCALE.signed() is SCALE


@pytest.mark.parametrize(
    ("call", "shape", "axis"),
    [
        (per_channel(0), (6,), 0),
        (per_channel(-1), (8,), 1),
        (in_blocks(6, 8), (1, 1), None),
        (in_blocks(1, 8), (6, 1), 0),
    ],
)
def test_the_scale_of_a_call(call: Call, shape: tuple[int, ...], axis: int | None) -> None:
    module = Constant(call, (6, 8), shape, has_zeros=False)
    found = _scale_in(module)
    assert (
        found is not None and found.axis == axis and found.scales == tuple(module.scales.flatten().tolist())
    )


def _scale_in(module: Constant) -> Quantization | None:
    program = edge(module, torch.zeros(6, 8), preserve=QUANTIZATIONS, passes=())
    (node,) = (each for each in program.graph.nodes if each.target in DEQUANTIZING)
    assert quantization_of(node) is None  # without the constants
    return quantization_of(node, lambda each: program.constants.get(each.name))


@pytest.mark.parametrize(
    ("call", "shape"), [(per_group(4), (6, 2)), (in_blocks(2, 4), (3, 2)), (in_blocks(1, 1), (6, 8))]
)
def test_groups_have_no_scale_of_channels(call: Call, shape: tuple[int, ...]) -> None:
    assert _scale_in(Constant(call, (6, 8), shape, has_zeros=False)) is None


def test_parameters_that_are_no_scale() -> None:
    assert _scale_in(Constant(per_channel(0), (6, 8), (6,))) is None  # several zero points
    module = Constant(per_channel(0), (6, 8), (6,), has_zeros=False)
    module.scales[2] = 0.0
    assert _scale_in(module) is None


def test_operands_of_activations() -> None:
    class Tokens(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scale, zero = quantized.choose_qparams_per_token_asymmetric(x, torch.int8)
            quantized_rows = quantized.quantize_per_token(x, scale, zero, *INT8)
            found: Tensor = quantized.dequantize_per_token(quantized_rows, scale, zero, *INT8, torch.float32)
            return found

    program = edge(Tokens(), torch.randn(2, 3, 4), preserve=QUANTIZATIONS, passes=())
    calls = [operands_of(node) for node in program.graph.nodes if node.target in QUANTIZATIONS]
    assert [(each.block, each.dtype, each.low, each.high) for each in calls] == [
        ((1, 1, 4), torch.int8, -128, 127)
    ] * 2
    assert calls[0].scale is calls[1].scale
