# SPDX-License-Identifier: Apache-2.0
"""Convolutions in three dimensions with quantized weights, in the stock runtime."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.testing import Layer, qdq
from delegatec.edge.quantization.operators import quantized
from tests.oracle.xnnpack import assert_quantized_close, floats, run

VOLUME: Final = floats(2, 8, 4, 5, 6)
KERNELS: Final[dict[str, tuple[tuple[int, ...], dict[str, Any]]]] = {
    "of one plane": ((12, 8, 1, 3, 3), {"padding": (0, 1, 1)}),
    "of one pixel": ((12, 8, 3, 1, 1), {"padding": (1, 0, 0)}),
    "of one number": ((12, 8, 1, 1, 1), {}),
    "of planes": ((12, 8, 2, 3, 3), {"stride": (1, 2, 2)}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_quantized_results_are_those_of_eager_mode(name: str) -> None:
    shape, options = KERNELS[name]

    def function(layer: Layer, x: Tensor) -> Tensor:
        return qdq(f.conv3d(qdq(x), layer.weight(), layer.bias, **options).relu(), 0.1, -128)

    found, results, wanted = run(Layer(function, shape), VOLUME)
    computed = [each for each in found if each in ("Convert", "Convolution", "Clamp")]
    assert computed == ["Convert", "Convolution", "Convert"]  # the clamp is part of the convolution
    assert_quantized_close(results, wanted, 0.1, 0.01)


def test_planes_of_groups_are_added_as_floats() -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        return qdq(f.conv3d(qdq(x), layer.weight(), layer.bias, groups=2), 0.3, -10)

    found, results, wanted = run(Layer(function, (12, 4, 2, 3, 3)), VOLUME)
    assert (found.count("Convolution"), found.count("Add")) == (2, 1)
    assert_quantized_close(results, wanted, 0.3, 0.01)


@pytest.mark.parametrize("zero", [0, 5])
def test_float_inputs_and_weights_with_one_scale(zero: int) -> None:
    def function(layer: Layer, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_tensor(layer.values, 0.01, zero, -128, 127, torch.int8)
        return f.conv3d(x, weight, layer.bias, padding=1)

    found, results, wanted = run(Layer(function, (12, 8, 3, 3, 3)), VOLUME)
    assert "Convolution" in found and "Convert" not in found
    torch.testing.assert_close(results, wanted, rtol=1e-5, atol=5e-5)
