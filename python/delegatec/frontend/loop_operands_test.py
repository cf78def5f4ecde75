# SPDX-License-Identifier: Apache-2.0
"""Scans whose states start with one tensor; the export compares each program with its module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import scan

from delegatec.frontend.export import export_with_samples
from delegatec.frontend.model import Model


class Scans(torch.nn.Module):
    """Calls a function with its weight and the input."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, rows: Tensor) -> Any:
        return self.function(self.weight, rows)


def _zeros(weight: Tensor, rows: Tensor) -> Any:
    zeros = rows[0] * 0
    return scan(lambda c, x: ((c[0] * 0.5 + x, c[0] + c[1]), c[0] + 2 * c[1]), (zeros, zeros), rows)


def _weights(weight: Tensor, rows: Tensor) -> Any:
    return scan(lambda c, x: ((c[0] * weight + x, c[1] + weight), c[0] - c[1]), (weight, weight), rows)


def _captured(weight: Tensor, rows: Tensor) -> Any:
    start = rows[0] * 2
    return scan(lambda c, x: (c * 0.5 + x + start, c * 1), start, rows)


def _rows(weight: Tensor, rows: Tensor) -> Any:
    return scan(lambda c, x: (c * 0.5 + x[0] * rows.sum() + x[1], c * 1), rows[0] * 0, (rows, rows))


@pytest.mark.parametrize("function", [_zeros, _weights, _captured, _rows], ids=lambda f: f.__name__[1:])
@pytest.mark.parametrize("strict", [False, True])
def test_states_that_start_with_one_tensor(function: Callable[..., Any], strict: bool) -> None:
    model = Model(Scans(function), (torch.randn(5, 3),), strict=strict)
    assert len(export_with_samples(model).samples.calls) == 2
