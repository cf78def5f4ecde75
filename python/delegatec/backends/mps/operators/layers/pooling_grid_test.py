# SPDX-License-Identifier: Apache-2.0
"""Pools of many geometries, against eager mode."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.common.testing import IMAGE, Function, floats, ints
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.operators.grid import PRECISIONS, rejected, run_case

INTEGERS = MPS.preserved_operators()
AVERAGES: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
MAXIMA: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


def _draw(seed: int, rank: int) -> tuple[random.Random, torch.Tensor, list[list[int]]]:
    """Draws a generator, an operand, and kernel, stride, padding and dilation that fit it."""
    chance = random.Random(seed)
    kernel = [chance.randint(1, 4) for _ in range(rank)]
    stride = [chance.randint(1, 4) for _ in range(rank)]
    padding = [chance.randint(0, size // 2) for size in kernel]
    dilation = [chance.randint(1, 2) for _ in range(rank)]
    sizes = [d * (k - 1) + chance.randint(1, 5) for d, k in zip(dilation, kernel, strict=True)]
    x = floats(*(2,) * (chance.random() < 0.8), 3, *sizes, seed=seed)
    return chance, x, [kernel, stride, padding, dilation]


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_average(rank: int, seed: int) -> None:
    chance, x, (kernel, stride, padding, _) = _draw(seed, rank)
    rest: tuple[Any, ...] = (chance.random() < 0.6, chance.random() < 0.6)
    if rank > 1:
        rest = (*rest, chance.choice([None, None, 3]))
    run_case(
        lambda x: AVERAGES[rank](x, kernel, stride, padding, *rest),
        (x,),
        precision=PRECISIONS[seed % 2],
        preserve=INTEGERS,
        special=1,
        # eager mode does not support three dimensions in float16
        reference=lambda x: AVERAGES[rank](x.float(), kernel, stride, padding, *rest),
    )


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_maximum(rank: int, seed: int) -> None:
    chance, x, geometry = _draw(seed, rank)
    ceil, indices = chance.random() < 0.5, chance.random() < 0.5
    # In float16 the largest element of a three-dimensional window is often not unique.
    precision = "fp32" if rank == 3 and indices else PRECISIONS[seed % 2]
    run_case(
        lambda x: MAXIMA[rank](x - 2, *geometry, ceil, indices),
        (x,),
        precision=precision,
        preserve=INTEGERS,
        special=not indices,
        # eager mode does not support three dimensions in float16
        reference=lambda x: MAXIMA[rank]((x - 2).float(), *geometry, ceil, indices),
    )


@pytest.mark.parametrize("seed", range(12))
def test_adaptive(seed: int) -> None:
    chance = random.Random(seed)
    outputs = (chance.randint(1, 12), chance.randint(1, 12))
    x = floats(2, 3, *(chance.randint(4, 9) for _ in range(2)), seed=seed)
    if chance.random() < 0.3:
        x = x[0]
    precision = PRECISIONS[seed % 2]
    run_case(
        lambda x: F.adaptive_avg_pool2d(x, outputs), (x,), precision=precision, preserve=INTEGERS, special=1
    )
    run_case(
        lambda x: F.adaptive_max_pool2d(x, outputs, return_indices=True),
        (x,),
        precision=precision,
        preserve=INTEGERS,
    )


CASES: dict[str, tuple[Function, torch.Tensor, str]] = {
    "windows of one size": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE, "AvgPool2D"),
    "windows of two sizes": (
        lambda x: F.adaptive_avg_pool2d(x, (7, 3)),
        floats(2, 3, 7, 5),
        "ConstantPadND IndexSelect AvgPool2D Mul",
    ),
    "windows of two sizes, maximum": (
        lambda x: F.adaptive_max_pool2d(x, (7, 3)),
        floats(2, 3, 7, 5),
        "IndexSelect MaxPool2DWithIndices Isnan Where MaxPool2DWithIndices Gt Where",
    ),
    "adaptive, one dimension": (lambda x: F.adaptive_avg_pool1d(x, 4), floats(2, 6, 9), ""),
    "adaptive maximum, one dimension": (lambda x: F.adaptive_max_pool1d(x, 4), floats(2, 6, 9), ""),
    "adaptive, three dimensions": (lambda x: F.adaptive_avg_pool3d(x, (3, 5, 2)), floats(2, 3, 4, 6, 7), ""),
    "area": (lambda x: F.interpolate(x, (5, 11), mode="area"), IMAGE, ""),
    "divisor": (lambda x: F.avg_pool2d(x, 3, 2, divisor_override=5), IMAGE, "AvgPool2D"),
    "beyond padding that counts": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
        floats(1, 2, 6, 6),
        "AvgPool2D Mul",
    ),
    "without a batch": (lambda x: F.avg_pool2d(x, 2), IMAGE[0], "View AvgPool2D View"),
    "norm": (lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 3, 2), IMAGE, ""),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, precision: str) -> None:
    function, x, expected = CASES[name]
    run_case(function, (x,), expected if precision == "fp32" else "", precision, preserve=INTEGERS, special=1)


def test_infinity_stays_in_its_windows() -> None:
    x = floats(1, 1, 5, 5)
    x[0, 0, 4, 4] = math.inf
    run_case(lambda x: F.adaptive_avg_pool2d(x, (3, 3)), (x,), preserve=INTEGERS)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_last_nan_of_a_window_is_its_maximum(precision: str) -> None:
    x = IMAGE.clone()
    x.view(-1)[::7] = math.nan
    run_case(
        lambda x: F.max_pool2d(x, 3, 2, padding=1, dilation=1, return_indices=True),
        (x,),
        precision=precision,
        preserve=INTEGERS,
    )


def test_integers_are_rejected() -> None:
    ((_, rule, message),) = rejected(lambda x: F.max_pool2d(x, 2), (ints(1, 1, 4, 4),))
    assert (rule, message.split(".")[0]) == ("dtype", "operand of dtype int64")
