# SPDX-License-Identifier: Apache-2.0
"""Reductions, top-k, sorting and scans: NaN, ties, wide integers, and sums that float16 does not hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from delegatec.backends.common.testing import Call, X, eager, floats, ints
from delegatec.backends.mps.testing import compile_module
from delegatec.backends.mps.testing.grid import PRECISIONS, rejected, run_case
from delegatec.edge.legalize.rules import topk

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
DISTINCT = torch.tensor([[1.0, INF, NAN, -INF, 2.0, 0.5], [-INF, 3.0, -2.0, 9.0, INF, -1.0]])
INTEGERS = ints(3, 5, 7, high=9) - 4
EXTREME = torch.tensor([[-(2**63), 2**63 - 1, 0], [-(2**63), -(2**63), -5], [2**63 - 1, 3, 3]])
LARGEST = torch.tensor([[2**63 - 1, -(2**63), 5, 0]])
FLAGS = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
DEEP = floats(2, 3, 2, 2, 3, 2)
ROOM = floats(5, 4, 6)
ROUTER = floats(6, 32)
TIES = ints(4, 11, high=3)

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]

CASES: dict[str, Case] = {
    "sum overflows as ATen": (lambda x: x.sum(1), (EXTREME,)),
    "sum in int32": (lambda x: x.sum(1, dtype=torch.int32), (INTEGERS.to(torch.int8),)),
    "count of what became floating point": (lambda x: (x.float().sum(1), (x > 0).float().sum()), (INTEGERS,)),
    "sum of rank 6": (lambda x: (x.sum((1, 3)), x.sum(0, True), x.mean((0, 2, 5)), x.mean()), (DEEP,)),
    "sum of infinities": (lambda x: x.sum(1), (SPECIAL,)),
    "mean of ints": (lambda x: x.mean(1, dtype=torch.float32), (INTEGERS * 16001,)),
    "sum and product in bool": (
        lambda x: (x.sum(1, dtype=torch.bool), x.prod(1, dtype=torch.bool), x.prod(dtype=torch.bool)),
        (INTEGERS,),
    ),
    "amax of NaN and infinities": (lambda x: (x.amax(1), x.amax(0), x.max()), (SPECIAL,)),
    "amin of NaN and infinities": (lambda x: (x.amin(1), x.amin(0), x.min()), (SPECIAL,)),
    "extrema of the largest ints": (lambda x: (x.amax(1), x.amin(1), x.amax(0)), (EXTREME,)),
    "extrema of rank 6": (lambda x: (x.amax((1, 4)), x.amin(0)), (DEEP,)),
    "any along no dimension": (lambda x: torch.any(x, ()) & x, (FLAGS,)),
    "any of NaN": (lambda x: x.any(1), (SPECIAL,)),
    "all": (lambda x: (x.all(), x.all(1), x.all(0, keepdim=True)), (FLAGS,)),
    "positions of ties": (lambda x: (x.argmax(1), x.argmin(1), x.argmax(2), x.argmin()), (INTEGERS % 2,)),
    "positions of NaN and infinities": (lambda x: (x.argmax(1), x.argmin(1), x.argmax()), (SPECIAL,)),
    "positions in the largest ints": (lambda x: (x.argmax(1), x.argmin(1)), (EXTREME,)),
    "max and min of NaN and infinities": (lambda x: (x.max(1), x.min(1)), (SPECIAL,)),
    "max and min of bools": (lambda x: (x.max(1), x.min(1)), (FLAGS,)),
    "deviation": (lambda x: (x.var(1), x.std((0, 2)), x.var(correction=0), torch.var_mean(x, 1)), (ROOM,)),
    "norm": (lambda x: (torch.linalg.vector_norm(x, dim=1), x.norm()), (ROOM,)),
    "logsumexp": (lambda x: (x.logsumexp(1), x.logsumexp((0, 2), True)), (ROOM,)),
    "cumsum of infinities": (lambda x: x.cumsum(1), (SPECIAL,)),
    "cumsum of rank 0 and size 1": (lambda x: (x.sum().cumsum(0), x[:, :1].cumsum(1)), (X,)),
}
TOP: dict[str, Case] = {
    "several": (lambda x: x.topk(4), (ROUTER,)),
    "values alone": (lambda x: x.topk(3).values * 2, (ROUTER,)),
    "positions alone": (lambda x: x.topk(3).indices + 1, (ROUTER,)),
    "another dimension": (lambda x: x.topk(3, dim=1, largest=False), (ROUTER.view(4, 6, 8),)),
    "NaN and infinities": (lambda x: (x.topk(4), x.topk(6, largest=False)), (DISTINCT,)),
    "the largest integers": (lambda x: (x.topk(4), x.topk(4, largest=False)), (LARGEST,)),
}
SORTS: dict[str, Case] = {
    "stable": (lambda x: x.sort(stable=True), (TIES,)),
    "stable, descending": (lambda x: x.sort(stable=True, descending=True, dim=0), (TIES,)),
    "NaN and infinities": (lambda x: x.sort(), (DISTINCT,)),
    "median": (lambda x: (x.median(1), x.median(), x.kthvalue(3, 0)), (ROUTER,)),
    "searchsorted": (lambda x: torch.bucketize(x, torch.linspace(-0.7, 0.7, 9)), (ROUTER,)),
    "cumprod": (lambda x: x.cumprod(1), (floats(3, 7) * 2,)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (ROUTER,)),
    "cummax": (lambda x: x.cummax(1), (ROUTER,)),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, precision: str) -> None:
    run_case(*CASES[name], precision=precision)


@pytest.mark.parametrize("name", TOP)
@pytest.mark.parametrize("most", [2**24, 0])
def test_top(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By comparisons of all pairs, or in rounds."""
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", most)
    run_case(*TOP[name])


@pytest.mark.parametrize("most", [2**24, 0])
@pytest.mark.parametrize("largest", [True, False])
def test_equal_elements_keep_their_order(largest: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", most)
    x = torch.tensor([[1.0, INF, NAN, 1.0, INF, NAN, -INF, -INF]])
    wanted = [2, 5, 1, 4, 0, 3, 6, 7] if largest else [6, 7, 0, 3, 1, 4, 2, 5]
    run_case(
        lambda x: x.topk(8, largest=largest).indices + 0, (x,), reference=lambda x: torch.tensor([wanted])
    )


def test_large_k_of_long_rows_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topk, "_MOST_COMPARISONS", 32 * 32)
    assert rejected(lambda x: x.topk(17).values + 1, (ROUTER[:1],)) == []
    ((operator, rule, message),) = rejected(lambda x: (x + 1).topk(17).values * 2, (ROUTER,))
    assert (operator, rule) == ("aten.topk.default", "argument")
    assert message.startswith("17 of 32 elements in 6 rows")


@pytest.mark.parametrize("name", SORTS)
def test_order(name: str) -> None:
    run_case(*SORTS[name])


def test_cumulative_sum_of_float16_is_computed_in_float32() -> None:
    run_case(lambda x: x.cumsum(1), (torch.full((2, 3000), 1.0),), precision="fp16", rtol=0, atol=0)


def test_deviation_of_special_values() -> None:
    run_case(lambda x: (x.var(1), x.std((0, 2)), x.var(correction=0)), (ROOM,), special=1)


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
