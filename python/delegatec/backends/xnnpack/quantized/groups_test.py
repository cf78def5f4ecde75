# SPDX-License-Identifier: Apache-2.0
"""Weights with groupwise scales, and with zero points: the parts that the runtime multiplies by."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from delegatec.backends.xnnpack.quantized.groups import grouped_weight
from delegatec.backends.xnnpack.quantized.testing import GroupedLinear
from delegatec.edge.quantization.affine import AFFINE
from delegatec.edge.quantization.constant import QuantizedConstant
from delegatec.edge.testing import edge

DEQUANTIZE = AFFINE.dequantize_affine.default


def found(layer: nn.Module, inputs: int) -> QuantizedConstant | None:
    program = edge(layer, torch.randn(2, inputs), preserve=[DEQUANTIZE, torch.ops.aten.linear.default])
    (node,) = (each for each in program.graph.nodes if each.target is DEQUANTIZE)
    return grouped_weight(node, lambda each: program.constants.get(each.name))


def weight_of_parts(weight: QuantizedConstant) -> Tensor:
    """Returns the weight that the sum of the parts represents."""
    parts = [part.values.double() * part.channel_scales()[:, None] for part in weight.columns()]
    if weight.zero_points is not None:
        corrections = -weight.zero_points.double() * weight.scales
        parts = [part + corrections[:, [index]] for index, part in enumerate(parts)]
    return torch.cat(parts, 1)


@pytest.mark.parametrize(
    ("limits", "dtype", "is_int4"),
    [
        ((-8, 7), torch.int8, True),
        ((-2, 1), torch.int8, True),
        ((0, 15), torch.int8, True),
        ((-128, 127), torch.int8, False),
        ((0, 15), torch.uint8, True),
        ((240, 255), torch.uint8, True),
        ((0, 255), torch.uint8, False),
    ],
)
@pytest.mark.parametrize("has_zeros", [False, True])
def test_the_parts_of_a_weight(
    limits: tuple[int, int], dtype: torch.dtype, is_int4: bool, has_zeros: bool
) -> None:
    layer = GroupedLinear((96, 128), 32, limits, has_zeros=has_zeros, dtype=dtype)
    weight = found(layer, 128)
    assert weight is not None and (weight.groups, weight.block[1], weight.is_int4) == (4, 32, is_int4)
    zeros = 0 if layer.zeros is None else layer.zeros.double().repeat_interleave(32, 1)
    wanted = (layer.values.double() - zeros) * layer.scales.double().repeat_interleave(32, 1)
    torch.testing.assert_close(weight_of_parts(weight), wanted, rtol=1e-6, atol=1e-6)
    assert weight.values.dtype == torch.int8
    is_shifted = (not is_int4 and dtype == torch.uint8) or (is_int4 and limits[1] > 7)
    assert (weight.zero_points is not None) == (has_zeros or is_shifted)


def test_quantized_values_are_not_copied() -> None:
    layer = GroupedLinear((96, 128), 32)
    weight = found(layer, 128)
    assert weight is not None
    assert {part.values.untyped_storage().data_ptr() for part in weight.columns()} == {
        layer.values.untyped_storage().data_ptr()
    }


def test_one_scale_per_channel_is_a_form_of_the_runtime_without_zero_points() -> None:
    assert found(GroupedLinear((96, 128), 128), 128) is None
    weight = found(GroupedLinear((96, 128), 128, has_zeros=True), 128)
    assert weight is not None and weight.groups == 1


@pytest.mark.parametrize(("outputs", "width"), [(20, 32), (80, 8)])
def test_scalars_that_are_not_twice_as_large_are_stored(outputs: int, width: int) -> None:
    assert found(GroupedLinear((outputs, 128), width), 128) is None
    assert found(GroupedLinear((outputs * 2, 128), width), 128) is not None


def test_weights_that_the_runtime_has_no_form_for() -> None:
    layer = GroupedLinear((96, 128), 32)
    layer.scales[3, 1] = 0.0
    assert found(layer, 128) is None

    class Both(GroupedLinear):
        def forward(self, x: Tensor) -> Tensor:
            weight: Tensor = AFFINE.dequantize_affine(self.values, [1, 32], self.scales, None, torch.int8)
            return nn.functional.linear(x, weight) + weight.sum()

    assert found(Both((96, 128), 32), 128) is None
