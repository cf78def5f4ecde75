# SPDX-License-Identifier: Apache-2.0
"""Quantization in floating point, without the profile INT, against eager mode."""

from __future__ import annotations

import torch

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import X
from delegatec.edge.quantization.operators import DEQUANTIZE, QUANTIZE

_PARAMETERS = (0.02, 3, -128, 127, torch.int8)


def test_per_tensor() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = DEQUANTIZE(QUANTIZE(x + 0.25, *_PARAMETERS), *_PARAMETERS).exp()
        return result

    run_case(function, (X,), specification="TOSA-1.0+FP")
