# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of torch, one a case."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from tests.oracle.core_case import Case, noise, of_function

X = noise(2, 3, 4)


def _each(names: str, *inputs: Any, source: Any = torch) -> dict[str, Case]:
    """A case for each function of one name each."""
    return {name: of_function(getattr(source, name), *inputs) for name in names.split()}


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
}
