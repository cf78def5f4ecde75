# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic, bits, conversions and creation in the reference executor, against eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, ints

SIGNED = torch.tensor([-7, -3, 0, 2, 9], dtype=torch.int32)
INT8 = SIGNED.to(torch.int8)
NEGATED = torch.tensor([False, False, True])

CASES: dict[str, tuple[Function, tuple[Any, ...], str]] = {
    "ne": (torch.ne, PAIRS, "EQUAL LOGICAL_NOT"),
    "eq of bool": (torch.eq, (BOOL, NEGATED), "LOGICAL_XOR LOGICAL_NOT"),
    "ne of bool": (torch.ne, (BOOL, NEGATED), "LOGICAL_XOR"),
    "lt of bool": (torch.lt, (BOOL, NEGATED), "CAST CAST GREATER"),
    "gt of int8 and a scalar": (lambda x: x > 1, (INT8,), "CAST GREATER"),
    "gt of int and a fraction": (lambda x: x > 1.5, (SIGNED,), "CAST GREATER"),
    "logical not": (torch.logical_not, (EDGES,), "EQUAL LOGICAL_NOT LOGICAL_NOT"),
    "bits of int": (
        lambda x, y: ((x & y) | 5) ^ y,
        (SIGNED, SIGNED.flip(0)),
        "BITWISE_AND BITWISE_OR BITWISE_XOR",
    ),
    "bits of int and a scalar": (lambda x: (x & 6) ^ 3, (SIGNED,), "BITWISE_AND BITWISE_XOR"),
    "bits of bool": (lambda x, y: (x & y) ^ ~x, (BOOL, NEGATED), "LOGICAL_AND LOGICAL_NOT LOGICAL_XOR"),
    "not of int8": (torch.bitwise_not, (INT8,), "BITWISE_NOT"),
    "isfinite": (torch.isfinite, (EDGES,), ""),
    "float to int": (lambda x: (x * 3.7).to(torch.int32), (X,), "MUL GREATER CEIL FLOOR SELECT CAST"),
    "float to bool": (lambda x: (x + 1.0).to(torch.bool), (EDGES,), "ADD EQUAL LOGICAL_NOT"),
    "bool to float": (lambda x: (~x).to(torch.float32), (BOOL,), "LOGICAL_NOT SELECT"),
    "bool to int": (lambda x: (~x).to(torch.int32), (BOOL,), "LOGICAL_NOT CAST"),
    "int to narrower": (lambda x: (x * 77).to(torch.int8), (SIGNED,), "MUL CAST"),
    "int64 to float": (lambda x: (x + 1).to(torch.float32), (ints(7),), "ADD CAST"),
    "half to bfloat16": (lambda x: (x * 2).to(torch.bfloat16), (X.half(),), "MUL CAST CAST"),
}
SPECIFICATION = "TOSA-1.0+INT+FP+bf16"


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    function, args, expected = CASES[name]
    run_case(function, args, expected, specification=SPECIFICATION)


def test_fractional_comparisons_in_the_floating_profile() -> None:
    run_case(lambda x: torch.where(x > 0.5, x, -x), (X,), "GREATER NEGATE SELECT")
