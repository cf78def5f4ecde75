# SPDX-License-Identifier: Apache-2.0
"""Comparisons of quantized values, and with constants."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.backends.arm.integer.testing import dequantize, integers, quantized_values
from delegatec.edge.interpret import interpret


def test_comparisons() -> None:
    """Results are bool."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return dequantize(x, 0.01) > dequantize(y, 0.01, 2)

    x, y = quantized_values(40), quantized_values(40, seed=2)
    (result,) = interpret(integers(function, (x, y)), (x, y))
    assert torch.equal(result, function(x, y))


@pytest.mark.parametrize("scale", [1 / 255, 0.007839307188987732, 0.03292613476514816, 2.5e-5])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_the_number_of_a_quantized_value(
    name: str, dtype: torch.dtype, scale: float
) -> None:
    """It has only the digits of float32."""
    compare = getattr(torch, name)
    x = quantized_values(4, 60, dtype=dtype)
    number = float(dequantize(x[0, 7], scale, 3))
    row = dequantize(x[1], scale, 3)

    def function(x: torch.Tensor) -> Any:
        y = dequantize(x, scale, 3)
        return compare(y, number), compare(y, number + 0.4 * scale), compare(y, row)

    found = interpret(integers(function, (x,)), (x,))
    for result, wanted in zip(found, function(x), strict=True):
        assert torch.equal(result, wanted)
