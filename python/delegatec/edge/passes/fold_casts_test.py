# SPDX-License-Identifier: Apache-2.0
"""Conversions to a dtype and back are removed only if they change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from delegatec.edge.testing import assert_computes, called, edge

aten = torch.ops.aten
X = torch.tensor([-300.7, -2.5, -0.5, 0.0, 0.5, 1.5, 2.49, 126.6, 300.2])


def integral(x: Tensor) -> Tensor:
    return torch.clamp(torch.round(x) + 3, -128, 127)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: integral(x).to(torch.int8).float(),
        lambda x: (integral(x) + 128).clamp(0, 255).to(torch.uint8).float(),
        lambda x: torch.round(x.clamp(-5, 4.5)).to(torch.int64).float(),
        lambda x: x.double().float(),
        lambda x: torch.floor(x).clamp(0, 10).to(torch.int16).float(),
    ],
)
def test_there_and_back_is_nothing(function: Callable[[Tensor], Tensor]) -> None:
    program = edge(lambda x: function(x) * 2, X)
    assert aten._to_copy.default not in called(program)
    assert_computes(program, function(X) * 2, X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.half().float(),
        lambda x: x.to(torch.float8_e4m3fn).float(),
        lambda x: x.clamp(-9, 9).to(torch.int8).float(),
        lambda x: (torch.round(x).clamp(-9.5, 9)).to(torch.int8).float(),
        lambda x: torch.round(x).clamp(max=9.0).to(torch.int64).float(),
        lambda x: (torch.round(x).clamp(-9, 9) + 0.5).clamp(-9, 9).to(torch.int8).float(),
        lambda x: torch.round(x).clamp(-9, 9).bool().float(),
        lambda x: torch.round(x).clamp(-9, 9).to(torch.int8).double().float(),
        lambda x: torch.round(x).clamp(-9, 200).to(torch.uint8).float(),
        lambda x: torch.sin(x).clamp(-9, 9).to(torch.int8).float(),
    ],
)
def test_lossy_conversions_are_kept(function: Callable[[Tensor], Tensor]) -> None:
    program = edge(lambda x: function(x) * 2, X)
    assert aten._to_copy.default in called(program)
    assert_computes(program, function(X) * 2, X)
