# SPDX-License-Identifier: Apache-2.0
"""Tests of results in the memory of an operand."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch
from torch.export import Dim

from delegatec.backends.xnnpack.building import operations
from delegatec.backends.xnnpack.testing import compile_module
from delegatec.diagnostics import DelegatecError


class _Centered(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        largest = x.amax(1, keepdim=True) * 2
        return (x - largest) * 3


def test_a_broadcast_in_the_memory_of_an_operand_is_rejected() -> None:
    """The stock runtime returns wrong results, or corrupts the heap."""
    shapes = ({1: Dim("size", min=1, max=9)},)
    compiled = compile_module(_Centered(), (torch.rand(2, 3),), shapes)
    with patch.object(operations, "dims_to_enlarge", return_value=[None, None]):
        shared = compile_module(_Centered(), (torch.rand(2, 3),), shapes)
    for size in (1, 5):
        x = torch.rand(2, size)
        torch.testing.assert_close(compiled(x)[0], _Centered()(x))
        if size == 1:
            torch.testing.assert_close(shared(x)[0], _Centered()(x))
    with pytest.raises(DelegatecError, match="has 10 elements now instead of 2"):
        shared(torch.rand(2, 5))


def test_the_first_run_decides() -> None:
    shapes = ({1: Dim("size", min=1, max=9)},)
    with patch.object(operations, "dims_to_enlarge", return_value=[None, None]):
        compiled = compile_module(_Centered(), (torch.rand(2, 3),), shapes)
    for size in (2, 9, 1, 4):
        x = torch.rand(2, size)
        torch.testing.assert_close(compiled(x)[0], _Centered()(x))


class _Outer(torch.nn.Module):
    """The first operand of the product is a view of an input, of which a copy is enlarged."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x[:, None] * x).sin()


def test_a_copy_of_an_input_is_kept_out_of_the_result_too() -> None:
    """Its memory was the result's in a run with one element, and later results exceeded it."""
    compiled = compile_module(_Outer(), (torch.rand(3),), ({0: Dim("size", min=1, max=9)},))
    for size in (1, 9, 4):
        x = torch.rand(size)
        torch.testing.assert_close(compiled(x)[0], _Outer()(x))
