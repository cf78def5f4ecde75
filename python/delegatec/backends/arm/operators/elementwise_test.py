# SPDX-License-Identifier: Apache-2.0
"""Functions of elements in the reference executor, against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import X, Y


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.exp, "EXP"),
        (lambda x: torch.rsqrt(x.abs() + 1.0), "ABS ADD RSQRT"),
        (torch.neg, "NEGATE"),
        (lambda x: x * 2.5, "MUL"),
    ],
)
def test_of_one_tensor(function: Callable[..., Any], expected: str) -> None:
    run_case(function, (X,), expected)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: torch.add(x, y, alpha=2), "MUL ADD"),
        (torch.maximum, "MAXIMUM"),
        (torch.lt, "GREATER"),
    ],
)
def test_of_two_tensors(function: Callable[..., Any], expected: str) -> None:
    run_case(function, (X, Y), expected)


def test_ranks_are_equal() -> None:
    run_case(torch.sub, (X, Y[0, 0]), "RESHAPE SUB")


def test_products() -> None:
    run_case(lambda x, y: x @ y.transpose(1, 2), (X, Y), "TRANSPOSE MATMUL")
