# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of torch, one a case."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle.core_case import Case, noise, of_function

X = noise(2, 3, 4)


def _each(names: str, *inputs: Any, source: Any = torch) -> dict[str, Case]:
    """A case for each function of one name each."""
    return {name: of_function(getattr(source, name), *inputs) for name in names.split()}


def _shifted(x: Tensor, by: Tensor) -> tuple[Tensor, ...]:
    """Shifts by numbers and tensors, also beyond the bits."""
    constants = [each for distance in (3, 7, 40, 70) for each in (x << distance, x >> distance)]
    return *constants, x << by, x >> by, torch.bitwise_left_shift(5, by), torch.bitwise_right_shift(-5, by)


def _shifts(dtype: torch.dtype) -> Case:
    distances = torch.tensor([1, 7, 8, 31, -1, 63, 0])
    return of_function(_shifted, torch.tensor([7, -5, 100, 3, -1, 0, 77]).to(dtype), distances.to(dtype))


ELEMENTWISE = {
    **_each(
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log log10 log1p"
        " log2 logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc",
        X,
    ),
    **_each(
        "celu elu gelu hardshrink hardsigmoid hardswish leaky_relu logsigmoid mish relu6 selu silu softplus"
        " softshrink softsign tanhshrink",
        X * 3,
        source=F,
    ),
    **_each(
        "add atan2 div eq floor_divide fmod ge logical_and logical_or logical_xor lt maximum minimum mul pow"
        " remainder sub",
        X.abs(),
        noise(3, 1).abs() + 0.5,
    ),
    "leaky_relu of zeros": of_function(
        lambda x: (F.leaky_relu(x, math.inf), F.leaky_relu(x, math.nan)), torch.tensor([-1.0, 0.0, -0.0, 2.0])
    ),
    **_each(
        "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor",
        torch.arange(12).view(3, 4),
        torch.arange(4),
    ),
    **{
        f"shifts of {dtype}": _shifts(dtype)
        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    },
}
