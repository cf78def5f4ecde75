# SPDX-License-Identifier: Apache-2.0
"""Shifts by any distance, also on families whose shifts round, against eager mode."""

from __future__ import annotations

from typing import Any, Final

import pytest
import torch

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import Function

SIGNED = torch.tensor([-7, -3, 0, 2, 9], dtype=torch.int32)

CASES: dict[str, tuple[Function, tuple[Any, ...], str]] = {
    "left": (lambda x: x << 2, (SIGNED,), "LOGICAL_LEFT_SHIFT"),
    "right": (lambda x: x >> 1, (SIGNED.to(torch.int8),), "ARITHMETIC_RIGHT_SHIFT"),
}
VALUES: Final = [-(1 << 31), (1 << 31) - 1, -(1 << 30), 1 << 30, -32768, 32767, -128, 127, -100, -1, 0, 1, 7]
DISTANCES: Final = [-1000, -128, -1, 0, 1, 2, 6, 7, 8, 14, 15, 16, 30, 31, 32, 127, 1000]


@pytest.mark.parametrize("name", CASES)
def test_shift(name: str) -> None:
    function, args, expected = CASES[name]
    run_case(function, args, expected)


def _within(values: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Returns the integers of a dtype, and those next to its limits."""
    limits = torch.iinfo(dtype)
    found = [each for each in values if limits.min <= each <= limits.max]
    return torch.tensor([*found, limits.min + 1, limits.max - 1], dtype=dtype)


@pytest.mark.parametrize("mark", ["u55", "u65", "u85"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("function", [torch.bitwise_left_shift, torch.bitwise_right_shift])
def test_families(function: Function, dtype: torch.dtype, mark: str) -> None:
    x, by = _within(VALUES, dtype), _within(DISTANCES, dtype)
    args = (x.view(-1, 1).repeat(1, len(by)), by.view(1, -1).repeat(len(x), 1))
    run_case(function, args, specification=f"TOSA-1.0+INT+int16+{mark}")
    by_scalar = torch.iinfo(dtype).bits - 1
    run_case(lambda x: function(x, by_scalar), (x,), specification=f"TOSA-1.0+INT+int16+{mark}")


def test_a_shift_that_rounds_is_of_the_integer_without_a_half() -> None:
    function, args = CASES["right"][0], (SIGNED,)
    run_case(function, args, "ARITHMETIC_RIGHT_SHIFT", specification="TOSA-1.0+INT")
    run_case(function, args, "MAXIMUM SUB ARITHMETIC_RIGHT_SHIFT", specification="TOSA-1.0+INT+u55")
