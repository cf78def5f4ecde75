# SPDX-License-Identifier: Apache-2.0
"""Which calls between quantized values have an int8 kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from delegatec.backends.xnnpack.testing import compile_module
from delegatec.backends.xnnpack.testing.grid import operations
from delegatec.edge.quantization.operators import quantized

_BOUNDS = (0.02, 3, -128, 127, torch.int8)


class _Pool(torch.nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for function in (lambda x: x, lambda x: f.avg_pool2d(x, 2)):
            x = quantized.quantize_per_tensor(function(x), *_BOUNDS)
            x = quantized.dequantize_per_tensor(x, *_BOUNDS)
        return x


@pytest.mark.parametrize(("dim", "kernel"), [(0, "DepthwiseConvolution"), (1, "AveragePooling")])
def test_averages_of_a_dynamic_number_of_channels_are_of_floats(dim: int, kernel: str) -> None:
    """The int8 kernel has a constant filter with a value for each channel."""
    dims = {dim: torch.export.Dim("n", min=2, max=8)}
    (blob,) = compile_module(_Pool(), (torch.randn(4, 5, 6, 8),), (dims,)).blobs()
    assert kernel in operations(blob)
