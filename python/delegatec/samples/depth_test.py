# SPDX-License-Identifier: Apache-2.0
"""Depths of programs, and the tolerances that follow from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from delegatec.samples.depth import rounding_depth
from delegatec.samples.tolerances import Tolerance, Tolerances


class _Residual(nn.Module):
    """The longest path counts, not the number of operators."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third = self.layers
        return torch.relu(third(first(x) + second(x))) * 2


class _Scan(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, item: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            carry = torch.softmax(carry @ carry, -1) + item
            return carry, carry.clone()

        return torch._higher_order_ops.scan(step, x[0], x)


class _Called(nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x)


@pytest.mark.parametrize(
    ("module", "depth"),
    [
        (_Called(lambda x: torch.relu(x) + 1), 0),
        (_Called(lambda x: x.sum(-1).mean()), 2),
        (_Called(lambda x: scaled_dot_product_attention(x, x, x)), 2),
        (_Residual(), 2),
        (nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.Softmax(-1)), 3),
        (_Scan(), 2),
    ],
)
def test_depth(module: nn.Module, depth: int) -> None:
    assert rounding_depth(torch.export.export(module.eval(), (torch.rand(1, 4, 4),))) == depth


def test_default_tolerances_grow_with_the_square_root() -> None:
    assert Tolerances(depth=0).of(torch.float32) == Tolerance(1e-5, 1e-5)
    assert Tolerances(depth=16).of(torch.float32) == Tolerance(4e-5, 4e-5)
    given = Tolerances(atol=1e-3, of_dtype={torch.float16: Tolerance(0.1, 0.2)}, depth=16)
    assert given.of(torch.float32) == Tolerance(1e-3, 4e-5)
    assert given.of(torch.float16) == Tolerance(0.1, 0.2)
