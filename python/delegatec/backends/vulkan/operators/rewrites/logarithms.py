# SPDX-License-Identifier: Apache-2.0
"""Logarithms, of which the runtime has none, by powers and exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_ROOT: Final = 1024
"""Numbers of float32 have roots of this degree between 0.90 and 1.1."""
_NEAR: Final = 0.4
"""Below this distance from one, the series alone is as exact as float32."""
_SERIES: Final = (1.000000000196629, 0.3333331769749, 0.2000198354760, 0.1419815739625, 0.1266562389087)
"""Coefficients of atanh(z) / z in z * z, for magnitudes of z up to 1/4, with an error of 2e-10."""
_LARGEST_ROOT: Final = math.exp(105 / _ROOT)
"""Logarithms of float32 are between -104 and 89."""


def _log(x: Value, excess: Value) -> Value:
    """Returns log(x), given x - 1, which may have more digits.

    An estimate y by a root of x has an absolute error of at most 0.1. The series of atanh adds the logarithm
    of x / exp(y), which is close to one. If x is close to one itself, y is zero, and the error that of the
    series. exp(y) has two factors, so that neither overflows.
    """
    root = (x.abs() ** (1 / _ROOT)).clamp(1 / _LARGEST_ROOT, _LARGEST_ROOT)
    estimate = (root - 1.0) / (root + 1.0) * (2.0 * _ROOT)
    is_near = excess.abs().lt(_NEAR)
    estimate = is_near.where(0.0, estimate)
    factor = (estimate * -0.5).exp()
    rest = is_near.where(excess, x * factor * factor - 1.0)
    z = rest / (rest + 2.0)
    square = z * z
    series = square * _SERIES[-1] + _SERIES[-2]
    for coefficient in reversed(_SERIES[:-2]):
        series = series * square + coefficient
    result = estimate + (z + z) * series
    # what is infinite or NaN is its own logarithm
    result = x.le(torch.finfo(torch.float32).max).where(result, x)
    return x.le(0.0).where(x.lt(0.0).where(x.scalar(math.nan), x.scalar(-math.inf)), result)


def _in_float32(compute: Callable[[Value], Value], builder: Builder, node: Node) -> Node:
    """Computes in float32: a root of float16 is one but for some digits."""
    dtype = dtype_of(node)
    return compute(value_of(builder, bind(node)["self"], dtype).widened()).to(dtype).node


_FUNCTIONS: Final[dict[str, Callable[[Value], Value]]] = {
    "log": lambda x: _log(x, x - 1.0),
    "log1p": lambda x: _log(x + 1.0, x),
}
REWRITES: Final = tuple(
    Rewrite(
        getattr(aten, name).default,
        partial(_in_float32, function),
        (FLOAT_RESULT,),
        note="by a power, an exponential and a series, in float32",
    )
    for name, function in _FUNCTIONS.items()
)
