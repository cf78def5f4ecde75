# SPDX-License-Identifier: Apache-2.0
"""Conditions on sizes that torch.export decided by the example are errors, unless all sizes meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

from delegatec.diagnostics import DelegatecError
from delegatec.frontend.export import export
from delegatec.frontend.model import Model


class Calls(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> Any:
        return self.function(x) if y is None else self.function(x, y)


def padded(x: torch.Tensor) -> torch.Tensor:
    pad = (-x.shape[0]) % 4
    return torch.nn.functional.pad(x, (0, pad)) if pad else x


def problem(function: Callable[..., Any], sizes: tuple[int, ...], dims: tuple[Any, ...]) -> str:
    inputs = tuple(torch.ones(size) for size in sizes)
    try:
        export(Model(Calls(function), inputs, dynamic_shapes=tuple({0: dim} for dim in dims)), samples=0)
    except DelegatecError as error:
        return "\n".join(f"{each.code}: {each.message}; {each.help}" for each in error.diagnostics)
    return ""


@pytest.mark.parametrize("dim", [Dim.AUTO(max=9), Dim.DYNAMIC(max=9)])
@pytest.mark.parametrize("size", [4, 5])
def test_branches(dim: Any, size: int) -> None:
    text = problem(padded, (size,), (dim,))
    assert text.startswith("DC113: forward() is traced for sizes with") and "dimension 0 of x" in text


def test_odd_sizes() -> None:
    text = problem(lambda x: x * 3 if x.shape[0] % 2 else x * 2, (5,), (Dim.DYNAMIC(max=9),))
    assert "(dimension 0 of x % 2) != 0; dynamic_shapes include input 0: [2]" in text


def test_a_multiple_has_a_remedy() -> None:
    text = problem(lambda x: x.view(-1, 2) * 2, (4,), (Dim.AUTO(max=9),))
    assert 'write 2 * torch.export.Dim("name", min=..., max=...)' in text


def test_products_of_two_sizes() -> None:
    def six(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sum() + y.sum() if x.shape[0] * y.shape[0] % 6 == 0 else x.sum()

    assert "% 6" in problem(six, (4, 5), (Dim.AUTO(max=9), Dim.AUTO(max=9)))


@pytest.mark.parametrize(
    ("function", "sizes", "dims"),
    [
        (lambda x: x.view(-1, 2) * 2, (4,), (2 * Dim("half", min=2, max=4),)),
        (lambda x, y: x + y, (4, 4), (Dim.AUTO(max=9), Dim.AUTO(max=9))),
        (lambda x: x * 2 if x.shape[0] > 1 else x, (4,), (Dim("n", min=2, max=9),)),
        (padded, (8,), (4 * Dim("quarter", min=2, max=4),)),
    ],
)
def test_conditions_that_all_sizes_meet(function: Any, sizes: Any, dims: Any) -> None:
    assert problem(function, sizes, dims) == ""
