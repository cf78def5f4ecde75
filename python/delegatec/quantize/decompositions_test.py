# SPDX-License-Identifier: Apache-2.0
"""Operators that are computed by others before quantization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from delegatec.quantize.settings import Settings
from delegatec.quantize.testing import quantized, signal_to_noise


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (torch.softmax, torch.float64),
        (torch.softmax, torch.float16),
        (torch.log_softmax, torch.float64),
        (torch.linalg.vector_norm, torch.float64),
    ],
)
def test_results_of_another_dtype(function: Any, dtype: torch.dtype) -> None:
    """They have it, and are quantized before."""

    class Converted(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return function(x @ x.T, dim=-1, dtype=dtype)

    x = torch.randn(6, 6, generator=torch.Generator().manual_seed(0))
    (program,) = quantized(Converted(), (x,), Settings()).methods.values()
    found, wanted = program.module(check_guards=False)(x), Converted()(x)
    assert found.dtype == dtype and signal_to_noise(wanted.float(), found.float()) > 25
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert [each for each in calls if each.meta["val"].dtype == dtype] == calls[-1:]
