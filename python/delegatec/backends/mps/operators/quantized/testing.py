# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of quantization: layers with quantized weights, and a check of one delegate."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import Compiled, eager, floats
from delegatec.backends.mps import BACKEND
from delegatec.backends.mps.testing import compile_module
from delegatec.edge.quantization.operators import quantized

PRESERVED: Final = sorted(BACKEND.preserved_operators(), key=str)
INT4: Final = (-8, 7, torch.int8)
INT8: Final = (-128, 127, torch.int8)


def quantized_values(rows: int, columns: int, low: int = -8, high: int = 7) -> Tensor:
    """Returns random int8 values in a range."""
    generator = torch.Generator().manual_seed(rows * columns)
    return torch.randint(low, high + 1, (rows, columns), generator=generator).to(torch.int8)


def scales(*shape: int) -> Tensor:
    return floats(*shape, seed=7).abs() / 8 + 0.01


class Weight(nn.Module):
    """A linear layer whose weight is quantized in groups of columns.

    Args:
        weight: quantized values.
        scale: of groups.
        zeros: of groups.
        group: columns per group.
        result: dtype.
    """

    weight: Tensor
    scale: Tensor

    def __init__(
        self,
        weight: Tensor,
        scale: Tensor,
        zeros: Tensor | None,
        group: int,
        result: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("zeros", zeros)
        self.group, self.result = group, result

    def forward(self, x: Tensor) -> Tensor:
        weight = quantized.dequantize_per_channel_group(
            self.weight, self.scale, self.zeros, *INT4, self.group, self.result
        )
        return F.linear(x, weight)


def one_delegate(module: nn.Module, x: Tensor, tolerance: float, **options: str) -> Compiled:
    """Checks that a module becomes one delegate with the results of eager mode.

    Args:
        module: of one input and one output.
        x: the input.
        tolerance: relative to the largest result.
        **options: of the backend.
    """
    compiled = compile_module(module, (x,), preserve=PRESERVED, **options)
    left = [(r.operator, r.rule, r.message) for r in compiled.report.rejections]
    assert (len(compiled.delegates), left) == (1, []), left
    for result, wanted in zip(compiled(x), eager(module, (x,)), strict=True):
        assert result.dtype == wanted.dtype and wanted.abs().max() > 1e-3
        torch.testing.assert_close(result, wanted, rtol=0, atol=tolerance * wanted.abs().max().item())
    return compiled
