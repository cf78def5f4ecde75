# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions in the reference executor, against eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, Y, floats, ints

SIGNED = torch.tensor([-7, -3, 0, 2, 9], dtype=torch.int32)
FLOAT_EDGES = EDGES[:-3]

CASES: dict[str, tuple[Function, tuple[Any, ...], str]] = {
    "exp of int": (torch.exp, (ints(3),), "CAST EXP"),
    "exp of bool": (torch.exp, (BOOL,), "SELECT EXP"),
    "sqrt": (torch.sqrt, (EDGES,), "RSQRT RECIPROCAL"),
    "abs of int8": (torch.abs, (SIGNED.to(torch.int8),), "CAST ABS CAST"),
    "neg of int64": (torch.neg, (SIGNED.to(torch.int64),), "NEGATE"),
    "add with a factor": (lambda x, y: torch.add(x, y, alpha=2), (X, Y), "MUL ADD"),
    "add of int8": (torch.add, (SIGNED.to(torch.int8), SIGNED.to(torch.int8)), "CAST CAST ADD CAST"),
    "add of int and float": (torch.add, (ints(2, 3, 4), X), "CAST ADD"),
    "sub of ranks": (torch.sub, (X, Y[0, 0]), "RESHAPE SUB"),
    "rsub with a factor": (lambda x: torch.rsub(x, 1, alpha=3), (SIGNED,), "MUL SUB"),
    "mul of bool": (torch.mul, (BOOL, BOOL), "LOGICAL_AND"),
    "div": (torch.div, PAIRS, "RECIPROCAL MUL"),
    "div by a scalar": (lambda x: x / 3.0, (EDGES,), "MUL"),
    "minimum of bool": (torch.minimum, (BOOL, ~BOOL), "LOGICAL_AND"),
    "relu6": (F.relu6, (EDGES,), "CLAMP"),
    "clamp out of order": (lambda x: x.clamp(0.5, -0.25), (X,), "CLAMP"),
    "clamp of int": (lambda x: x.clamp(-2, 5), (SIGNED,), "MAXIMUM MINIMUM"),
    "clamp of int8": (lambda x: x.clamp(-2, 7), (SIGNED.to(torch.int8),), "CLAMP"),
    "clamp to NaN": (lambda x: x.clamp(float("nan"), 1.0), (X,), "MUL"),
    "clamp by tensors": (lambda x, y: torch.clamp(x, y, y + 1.0), (X, Y), "ADD MAXIMUM MINIMUM"),
    "less than a number beyond int8": (lambda x: x < 263, (SIGNED.to(torch.int8),), "CAST GREATER"),
    "power of a scalar": (lambda x: 2.5**x, (FLOAT_EDGES,), ""),
    "gelu": (F.gelu, (FLOAT_EDGES,), "MUL MUL ERF ADD MUL"),
    "silu": (F.silu, (X,), "SIGMOID MUL"),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), (EDGES,), "MUL MAXIMUM"),
    "leaky_relu that is steep": (lambda x: F.leaky_relu(x, 1.5), (EDGES,), ""),
    "softplus": (F.softplus, (EDGES,), ""),
    "mish": (F.mish, (X,), ""),
}
SPECIFICATION = "TOSA-1.0+INT+FP"


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    function, args, expected = CASES[name]
    run_case(function, args, expected, specification=SPECIFICATION)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.add, torch.div, torch.maximum, torch.fmin])
def test_half_precision(function: Function, dtype: torch.dtype) -> None:
    args = (floats(3, 5).to(dtype), floats(5, seed=1).to(dtype))
    run_case(function, args, tolerance=(0.0, 0.0), specification=f"{SPECIFICATION}+bf16")


@pytest.mark.parametrize("factor", [1e30, -7e4, 1e-9])
def test_factors_beyond_half_precision(factor: float) -> None:
    """Eager mode multiplies in float32; in FP16, the product of zero and the infinite factor would be NaN."""
    args = (torch.tensor([0.0, -0.0, 1.0, 6e4, float("inf"), float("nan")]).half(),)
    run_case(lambda x: x * factor, args, "CAST MUL CAST", tolerance=(0.0, 0.0), specification=SPECIFICATION)
