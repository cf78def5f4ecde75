# SPDX-License-Identifier: Apache-2.0
"""Quantization in floating point, without the profile INT, against eager mode."""

from __future__ import annotations

import pytest
import torch

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import X, floats
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE, quantized

_PARAMETERS = (0.02, 3, -128, 127, torch.int8)


def test_per_tensor() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = DEQUANTIZE(QUANTIZE(x + 0.25, *_PARAMETERS), *_PARAMETERS).exp()
        return result

    run_case(function, (X,), specification="TOSA-1.0+FP")


@pytest.mark.parametrize("zeros", [(3, 3, 3, 3), (0, 1, -2, 3)])
def test_per_channel(zeros: tuple[int, ...]) -> None:
    parameters = torch.linspace(0.01, 0.03, 4), torch.tensor(zeros), 1, -128, 127, torch.int8

    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = quantized.quantize_per_channel(x, *parameters)
        return result

    run_case(function, (floats(2, 4, 3),), specification="TOSA-1.0+FP")
