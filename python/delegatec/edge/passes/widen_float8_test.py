# SPDX-License-Identifier: Apache-2.0
"""Weights of 8-bit floating-point types are stored in 16 bits, with the same values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from delegatec.edge import to_edge
from delegatec.edge.testing import assert_computes

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz]


class Scaled(nn.Module):
    """All values of a type, repeated until they are too many to fold."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("weight", torch.arange(256, dtype=torch.uint8).view(dtype).repeat(80, 1))

    def forward(self, x: Tensor) -> Tensor:
        weight: Tensor = self.weight.t().to(torch.float32)
        return torch.nan_to_num(weight) * x


@pytest.mark.parametrize("dtype", FLOAT8)
def test_all_values(dtype: torch.dtype) -> None:
    module, x = Scaled(dtype), torch.tensor([0.5])
    program = to_edge(torch.export.export(module, (x,)))
    large = [constant.dtype for constant in program.constants.values() if constant.numel() > 1]
    assert large == [torch.float16]
    assert_computes(program, module(x), x, rtol=0, atol=0)


def test_other_uses_stay() -> None:
    class Returned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.ones(3).to(torch.float8_e5m2))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x + 1, self.weight

    program = to_edge(torch.export.export(Returned(), (torch.ones(1),)))
    (weight,) = program.constants.values()
    assert weight.dtype is torch.float8_e5m2
