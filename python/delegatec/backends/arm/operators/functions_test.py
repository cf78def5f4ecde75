# SPDX-License-Identifier: Apache-2.0
"""Functions that TOSA lacks, or defines for some operands only, against eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.arm.testing import run_case
from delegatec.backends.common.testing import BOOL, EDGES, PAIRS, Function, X, floats, ints

WAVE = torch.linspace(-8.0, 8.0, 81)
UNIT = torch.linspace(-1.0, 1.0, 41)
COUNTS = (ints(60, high=60).float() + 1.0, ints(60, high=50).flip(0).float() + 1.0)
INTEGERS = (ints(60, high=90, dtype=torch.int32) - 45, ints(60, high=9, dtype=torch.int32).flip(0) * 2 - 7)
SPECIFICATION = "TOSA-1.0+INT+FP+bf16"

CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "erfinv": (torch.erfinv, (UNIT,)),
    **{name: (getattr(torch, name), (WAVE,)) for name in ("erfc", "frac")},
    **{
        f"power of {exponent}": (lambda x, exponent=exponent: x**exponent, (EDGES,))
        for exponent in (2.0, 3.0, -1.0, 0.5, -0.5, 0.3, -1.7, 33.0, -34.0)
    },
    **{f"power by {base}": (lambda x, base=base: base**x, (EDGES,)) for base in (2.0, 0.3, 1.0, 0.0, -3.0)},
    "power of tensors": (torch.pow, PAIRS),
    "power of int": (lambda x: x**3, (INTEGERS[0],)),
    "floor of quotients": (lambda x, y: torch.div(x * y, y, rounding_mode="floor"), COUNTS),
    "truncated quotients": (lambda x, y: torch.div(x * y, y, rounding_mode="trunc"), COUNTS),
    "truncated quotients of pairs": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), PAIRS),
    "truncated quotients of half": (
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        (COUNTS[0].half(), COUNTS[1].half()),
    ),
    "remainder": (lambda x, y: torch.remainder(x * y, y), COUNTS),
    "remainder by a scalar": (lambda x: torch.remainder(x, 7.0), COUNTS[:1]),
    "fmod": (torch.fmod, COUNTS),
    "floor of int quotients": (lambda x, y: torch.div(x, y, rounding_mode="floor"), INTEGERS),
    "truncated int quotients": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), INTEGERS),
    "truncated int8 quotients": (
        lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        (INTEGERS[0].to(torch.int8), INTEGERS[1].to(torch.int8)),
    ),
    "remainder of int": (torch.remainder, INTEGERS),
    "fmod of int": (torch.fmod, INTEGERS),
    "shifts by tensors": (
        lambda x, y: (x << y, x >> y),
        (INTEGERS[0][:40], torch.arange(-4, 36, dtype=torch.int32)),
    ),
    "shifts of int8": (
        lambda x, y: (x << y, x >> y),
        (INTEGERS[0][:12].to(torch.int8), torch.arange(-2, 10, dtype=torch.int8)),
    ),
    "sum of bools": (lambda x: (x + ~x[:1], x * BOOL), (BOOL,)),
    "nan_to_num": (lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), (EDGES,)),
    "copysign": (torch.copysign, PAIRS),
    "softsign": (F.softsign, (EDGES[:-3],)),
    "hardswish": (F.hardswish, (WAVE,)),
    "prelu": (lambda x, y: F.prelu(x, y), (X, floats(3))),
    "positions of ints": (lambda x: (x.argmax(1), x.argmin(0)), (ints(5, 7),)),
    "cumprod": (lambda x: x.cumprod(-1), (X,)),
    "norm": (lambda x: torch.linalg.vector_norm(x, 3.0, dim=(0, 2)), (X,)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        tuple(floats(1, 2, 5, 8, seed=seed) for seed in range(3)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    function, args = CASES[name]
    run_case(function, args, specification=SPECIFICATION)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("function", [torch.atan, torch.log1p, torch.sinh, F.elu])
def test_half_precision_is_computed_in_float32(function: Function, dtype: torch.dtype) -> None:
    tolerance = (torch.finfo(dtype).eps, 0.0)
    run_case(function, (WAVE.to(dtype),), tolerance=tolerance, specification=SPECIFICATION)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int8])
@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_quotients_of_integers_without_their_profile(mode: str, dtype: torch.dtype) -> None:
    args = (INTEGERS[0].to(dtype), INTEGERS[1].to(dtype))
    run_case(lambda x, y: torch.div(x, y, rounding_mode=mode), args, specification="TOSA-1.0+FP")


def test_remainders_of_integers_without_their_profile() -> None:
    run_case(torch.remainder, INTEGERS, specification="TOSA-1.0+FP")


class _Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(floats(5, 4))
        self.bias = torch.nn.Parameter(floats(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


def test_a_constant_weight_is_a_kernel() -> None:
    run_case(_Linear(), (X,), "RESHAPE CONV2D RESHAPE")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_powers_of_half_precision_are_rounded_once(dtype: torch.dtype) -> None:
    x = WAVE[WAVE.abs() > 0.5].to(dtype)
    eps = torch.finfo(dtype).eps
    for exponent in (2, 3, 4, 7, -1, -2, -3):
        tolerance = (2 * eps, 0.0)  # ATen rounds some products
        function: Function = lambda x, e=exponent: x**e  # noqa: E731
        compiled = run_case(function, (x,), tolerance=tolerance, specification=SPECIFICATION)
        assert torch.equal(compiled(x)[0], (x.float() ** exponent).to(dtype))
