# SPDX-License-Identifier: Apache-2.0
"""Reductions, against eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends.common.testing import Call, X, eager, floats, ints
from delegatec.backends.mps.operators.grid import PRECISIONS, run_case
from delegatec.backends.mps.testing import compile_module

NAN, INF = math.nan, math.inf
SPECIAL = torch.tensor(
    [
        [1.0, NAN, 3.0, NAN, 0.5],
        [2.0, 7.0, 7.0, -1.0, 7.0],
        [-INF, -INF, -INF, -INF, -INF],
        [INF, -3.0, INF, -INF, 0.0],
        [-2.0, -0.5, -0.5, -4.0, -0.5],
        [NAN, INF, NAN, 1.0, 2.0],
    ]
)
INTEGERS = ints(3, 5, 7, high=9) - 4
EXTREME = torch.tensor([[-(2**63), 2**63 - 1, 0], [-(2**63), -(2**63), -5], [2**63 - 1, 3, 3]])
FLAGS = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
DEEP = floats(2, 3, 2, 2, 3, 2)
ROOM = floats(5, 4, 6)

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

CASES: dict[str, Case] = {
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True), x.sum(-2, True)), (ROOM,)),
    "sum of ints": (lambda x: (x.sum(), x.sum(1), x.sum((0, -1), True)), (INTEGERS,)),
    "sum of ints that are apart": (lambda x: x.sum((0, 2)), (INTEGERS.to(torch.int32),)),
    "sum overflows as ATen": (lambda x: x.sum(1), (EXTREME,)),
    "sum in int32": (lambda x: x.sum(1, dtype=torch.int32), (INTEGERS.to(torch.int8),)),
    "count": (lambda x: (x.sum(), x.sum(1)), (FLAGS,)),
    "count of what became floating point": (lambda x: (x.float().sum(1), (x > 0).float().sum()), (INTEGERS,)),
    "sum of rank 6": (lambda x: (x.sum((1, 3)), x.sum(0, True), x.mean((0, 2, 5)), x.mean()), (DEEP,)),
    "sum of infinities": (lambda x: x.sum(1), (SPECIAL,)),
    "mean": (lambda x: (x.mean((1, -1)), x.mean(1, keepdim=True), x.mean(), x.mean(())), (X,)),
    "mean of ints": (lambda x: x.mean(1, dtype=torch.float32), (INTEGERS * 16001,)),
    "prod": (lambda x: (x.prod(), x.prod(1), x.prod(-1, keepdim=True)), (floats(3, 5, 2) * 2,)),
    "prod of ints": (lambda x: (x.prod(1), x.prod(2, keepdim=True)), (INTEGERS,)),
    "sum and product in bool": (
        lambda x: (x.sum(1, dtype=torch.bool), x.prod(1, dtype=torch.bool), x.prod(dtype=torch.bool)),
        (INTEGERS,),
    ),
    "amax": (lambda x: (x.amax(1), x.amax((0, 1)), x.amax((0, 2), True), x.amax(), x.max()), (ROOM,)),
    "amin": (lambda x: (x.amin(-1), x.amin((1, 2)), x.amin((0, 2), True), x.amin(), x.min()), (ROOM,)),
    "amax of NaN and infinities": (lambda x: (x.amax(1), x.amax(0), x.max()), (SPECIAL,)),
    "amin of NaN and infinities": (lambda x: (x.amin(1), x.amin(0), x.min()), (SPECIAL,)),
    "extrema of ints": (lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min()), (INTEGERS,)),
    "extrema of the largest ints": (lambda x: (x.amax(1), x.amin(1), x.amax(0)), (EXTREME,)),
    "extrema of int8": (lambda x: (x.amax(0), x.amin(1)), (INTEGERS[0].to(torch.int8),)),
    "extrema of bools": (lambda x: (x.amax(1), x.amin(1), x.amin()), (FLAGS,)),
    "extrema of rank 6": (lambda x: (x.amax((1, 4)), x.amin(0)), (DEEP,)),
    "any": (lambda x: (x.any(), x.any(1), x.any(0, keepdim=True), torch.any(x, (0, 1))), (FLAGS,)),
    "any along no dimension": (lambda x: torch.any(x, ()) & x, (FLAGS,)),
    "any of floats": (lambda x: (x.any(1), torch.any(x, (0, 2), True)), (INTEGERS,)),
    "any of NaN": (lambda x: x.any(1), (SPECIAL,)),
    "all": (lambda x: (x.all(), x.all(1), x.all(0, keepdim=True)), (FLAGS,)),
    "rank 0": (
        lambda x: [f(x + 1) for f in (torch.sum, torch.mean, torch.amax, torch.prod, torch.any, torch.max)],
        (torch.tensor(0.5),),
    ),
    "rank 0, along dimension 0": (lambda x: (x.sum(0), x.amax(-1), x.max(0), x.argmin(0)), (X[0, 0, 0],)),
    "size 1": (lambda x: (x.sum(1), x.amax(1, True), x.max(1), x.prod(1), x.argmax(1)), (X[:, :1],)),
    "argmax": (lambda x: (x.argmax(), x.argmax(1), x.argmax(-1, keepdim=True)), (ROOM,)),
    "argmin": (lambda x: (x.argmin(), x.argmin(0), x.argmin(2, keepdim=True)), (ROOM,)),
    "argmax of all, with its dimensions": (lambda x: x.argmax(keepdim=True), (X,)),
    "positions of ties": (lambda x: (x.argmax(1), x.argmin(1), x.argmax(2), x.argmin()), (INTEGERS % 2,)),
    "positions of NaN and infinities": (lambda x: (x.argmax(1), x.argmin(1), x.argmax()), (SPECIAL,)),
    "positions in the largest ints": (lambda x: (x.argmax(1), x.argmin(1)), (EXTREME,)),
    "max along a dimension": (lambda x: (x.max(1), x.max(-1, keepdim=True), x.max(0)[1]), (ROOM,)),
    "min along a dimension": (lambda x: (x.min(1), x.min(-1, keepdim=True), x.min(0)[0]), (ROOM,)),
    "max and min of NaN and infinities": (lambda x: (x.max(1), x.min(1)), (SPECIAL,)),
    "max and min of bools": (lambda x: (x.max(1), x.min(1)), (FLAGS,)),
    "deviation": (lambda x: (x.var(1), x.std((0, 2)), x.var(correction=0), torch.var_mean(x, 1)), (ROOM,)),
    "norm": (lambda x: (torch.linalg.vector_norm(x, dim=1), x.norm()), (ROOM,)),
    "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, 2), True)), (ROOM,)),
}


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    run_case(*CASES[name])


def test_deviation_of_special_values() -> None:
    run_case(lambda x: (x.var(1), x.std((0, 2)), x.var(correction=0)), (ROOM,), special=1)


@pytest.mark.parametrize("name", CASES)
def test_operator_in_fp16(name: str) -> None:
    run_case(*CASES[name], precision="fp16")


def test_half() -> None:
    x = floats(4, 300).half() * 1000  # sums beyond float16 are infinite, and means are not
    run_case(
        lambda x: (x.sum(1), x.abs().sum(), x.mean(), x.amax(1), x.argmax(1)), (x,), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 3000.0])
def test_root_mean_squares_beyond_float16(scale: float) -> None:
    x = floats(3, 64) * scale
    x[:, 5] = 5 * scale

    def norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-7)

    def by_deviation(x: torch.Tensor) -> torch.Tensor:
        return (x / x.std(1, keepdim=True)) + (x / (x * x).sum(1, keepdim=True).div(64).sqrt())

    def by_power(x: torch.Tensor) -> torch.Tensor:
        return x * torch.pow(x.pow(2).mean(-1, keepdim=True) + 1e-7, -0.5)

    def by_high_power(x: torch.Tensor) -> torch.Tensor:
        return torch.div(x, torch.linalg.vector_norm(x, 6, dim=1, keepdim=True))

    for function in (norm, by_deviation, by_power, by_high_power):
        run_case(function, (x,), precision="fp16", reference=lambda x, f=function: f(x.float()))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_single_operations(precision: str) -> None:
    casts = {"fp32": ("", ""), "fp16": ("Cast Cast ", " Cast Cast")}[precision]
    run_case(lambda x: x.mean(1), (X,), f"{casts[0]}Mean{casts[1]}", precision)
    run_case(lambda x: x.sum(1), (X,), f"{casts[0]}Mean Mul{casts[1]}", precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64])
def test_sums_of_integers_converted_outside_of_the_delegate(dtype: torch.dtype, precision: str) -> None:
    x = (ROOM * 9).abs().to(dtype)
    module = Call(lambda x: (x.float().sum(1), (x * x).float().sum(1)))
    compiled = compile_module(module, (x,), precision)
    assert list(compiled.report.delegates[0].operators) == ["aten.sum.dim_IntList"]
    for result, wanted in zip(compiled(x), eager(module, (x,)), strict=True):
        torch.testing.assert_close(result, wanted, rtol=2e-3, atol=2e-3)


def test_moments_of_a_scalar_are_left_to_the_kernels() -> None:
    """It has no dimension to count; the same holds for flipping it."""
    scalar = torch.tensor(1.5)
    compiled = compile_module(Call(lambda x: x.var(0, correction=0) + x.flip(-1) * 2), (scalar,))
    assert [name for name, *_ in compiled.left] == ["aten.var.correction"]
