# SPDX-License-Identifier: Apache-2.0
"""Operations on quantized values that the runtime lacks, and that others compute, in the stock runtime."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as f

from delegatec.backends.xnnpack.quantized.testing import Layer, qdq
from tests.oracle.xnnpack import assert_quantized_close, floats, run


@pytest.mark.parametrize(
    ("kernel", "options", "expected"),
    [
        ((2, 2), {}, ["DepthwiseConvolution"]),
        ((3, 2), {"stride": (2, 1)}, ["DepthwiseConvolution"]),
        ((9, 9), {}, ["DepthwiseConvolution"]),
        ((3, 3), {"padding": 1}, ["ConstantPad", "DepthwiseConvolution"]),
        ((3, 3), {"padding": 1, "count_include_pad": False}, ["Convert", "AveragePooling", "Convert"]),
        ((10, 10), {}, ["Convert", "AveragePooling", "Convert"]),
    ],
)
def test_averages_of_windows(kernel: tuple[int, int], options: dict[str, Any], expected: list[str]) -> None:
    layer = Layer(lambda _, x: qdq(f.avg_pool2d(qdq(x), kernel, **options), 0.05, -7))
    found, results, wanted = run(layer, floats(2, 5, 12, 13))
    assert [each for each in found if each not in ("Transpose", "Reshape")] == [
        "Convert",
        *expected,
        "Convert",
    ]
    assert wanted.std() > 0.05
    assert_quantized_close(results, wanted, 0.05, 0.02)


@pytest.mark.parametrize("scale", [0.02, 0.0625, 0.1])
def test_products_with_the_own_sigmoid(scale: float) -> None:
    layer = Layer(lambda _, x: qdq(f.silu(qdq(x, scale, 0)), scale * 0.55, -110))
    found, results, wanted = run(layer, torch.arange(-128, 128) * scale)
    assert found == ["Convert", "Sigmoid", "Multiply", "Convert"]
    assert wanted.std() > 0.05
    assert_quantized_close(results, wanted, scale * 0.55, 0.25)


def test_group_norms_of_quantized_rows_of_channels() -> None:
    weight, bias = floats(8, seed=1), floats(8, seed=2)

    def function(_: Layer, x: torch.Tensor) -> torch.Tensor:
        found = torch.ops.aten.native_group_norm(qdq(x), weight, bias, 2, 8, 20, 4, 1e-5)
        return qdq(found[0], 0.1)

    found, results, wanted = run(Layer(function), floats(2, 8, 20))
    assert "ReciprocalSquareRoot" in found
    assert wanted.std() > 0.5
    assert_quantized_close(results, wanted, 0.1, 0.02)
