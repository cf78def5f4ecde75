# SPDX-License-Identifier: Apache-2.0
"""Exponentials and logarithms, for targets that lack them, or that lose digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import FunctionTable, Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, in_float32, pointwise, polynomial
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten

# Below this magnitude, log1p and expm1 are series, with as many terms as the dtype resolves.
_SMALL: Final = 0.5
_LOG1P_TERMS: Final = {torch.float32: 7, torch.float16: 4, torch.bfloat16: 3}
_EXPM1_TERMS: Final = {torch.float32: 9, torch.float16: 5, torch.bfloat16: 4}


def _exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, x if x.is_floating_point() else x.to(torch.get_default_dtype()))


def _softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Returns log(1 + exp(beta x)) / beta, of exponentials of negative values only.

    torch selects x where exp(beta x) is infinite. Targets that select by arithmetic return NaN there, and
    those of float16 lose the values from 11 to the threshold.
    """
    is_plain, wide = isinstance(beta, (int, float)) and beta == 1, _widened(x)
    scaled = wide if is_plain else wide * beta
    result = scaled.clamp(min=0) + torch.log1p(torch.exp(-scaled.abs()))
    # from here on, the logarithm is below half of the last digit
    if not is_plain or threshold < (36 if x.dtype is torch.float64 else 15):
        result = torch.where(scaled > threshold, wide, result if is_plain else result / beta)
    return result.to(x.dtype)


def _mish(x: Tensor) -> Tensor:
    """Returns x tanh(log(1 + exp(x))), with the tangent as a quotient of exponentials of negative values.

    It has all digits where it is small, unlike the hyperbolic tangents of some targets.
    """
    wide = _widened(x)
    small, is_negative = torch.exp(-wide.abs()), wide < 0
    part = torch.where(is_negative, small * (small + 2), small * 2 + 1)
    rest = torch.where(is_negative, 2.0, small * small * 2)
    return (wide * (part / (part + rest))).to(x.dtype)


def _widened(x: Tensor) -> Tensor:
    """Returns float16 and bfloat16 as float32, in which eager mode computes them."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def log1p(x: Value) -> Value:
    """Returns log(1 + x), near zero as the series of 2 atanh(x / (2 + x)).

    The series is finite also where it is not selected: some targets select by arithmetic.
    """
    near = x.clamp(-_SMALL, _SMALL)
    s = near / (near + 2.0)
    series = polynomial(s * s, [2.0 / (2 * index + 1) for index in range(_LOG1P_TERMS[x.dtype])])
    return x.abs().lt(_SMALL).where(s * series, (x + 1.0).log())


def expm1(x: Value) -> Value:
    """Returns exp(x) - 1, near zero as the series x (1 + x / 2 (1 + x / 3 (...)))."""
    terms = _EXPM1_TERMS[x.dtype]
    series = x * (1.0 / terms) + 1.0
    for index in reversed(range(2, terms)):
        series = series * (x * (1.0 / index)) + 1.0
    return x.abs().lt(_SMALL).where(x * series, x.exp() - 1.0)


def _exp2_by_exp(x: Value) -> Value:
    return (x * math.log(2)).exp()


def _logarithm(base: float) -> Callable[[Value], Value]:
    return lambda x: x.log() * (1.0 / math.log(base))


def _logit(x: Value, eps: float | None) -> Value:
    """Computes logit in float32, in which one minus a small value is not one."""
    if eps is not None:
        low = torch.tensor(eps, dtype=torch.float32)
        x = x.clamp(low.item(), (1 - low).item())
    return (x / (1.0 - x)).log()


def _inverted_bounds(node: Node, _: object) -> str | None:
    eps = bind(node)["eps"]
    return None if eps is None or eps <= 0.5 else f"eps is {eps}"


def _xlogy(x: Value, y: Value) -> Value:
    """Returns x log(y), zero if x is zero, unless y is NaN."""
    return (x.eq(0.0) & ~y.isnan()).where(0.0, x * y.log())


# ---- logarithms by roots ---------------------------------------------------------------------------------

_ROOT: Final = 1024
"""float32 values have roots of this degree between 0.90 and 1.1."""
_NEAR: Final = 0.4
"""Below this distance from one, the series alone is as exact as float32."""
_ATANH: Final = (1.000000000196629, 0.3333331769749, 0.2000198354760, 0.1419815739625, 0.1266562389087)
"""Coefficients of atanh(z) / z in z * z, for magnitudes of z up to 1/4, with an error of 2e-10."""
_LARGEST_ROOT: Final = math.exp(105 / _ROOT)
"""Logarithms of float32 are between -104 and 89."""


def _log_by_root(x: Value, excess: Value) -> Value:
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
    series = polynomial(z * z, _ATANH)
    result = estimate + (z + z) * series
    # infinite values and NaN are equal to their logarithms
    result = x.le(torch.finfo(torch.float32).max).where(result, x)
    return x.le(0.0).where(x.lt(0.0).where(x.scalar(math.nan), x.scalar(-math.inf)), result)


FUNCTIONS: FunctionTable = {
    aten.exp2.default: _exp2,
    aten.mish.default: _mish,
    aten.softplus.default: _softplus,
}

OTHER_BASES: Final = tuple(
    Rewrite(
        target,
        in_float32(_logarithm(base)),
        (FLOAT_RESULT,),
        note="a series where others lose digits; in float32",
    )
    for target, base in ((aten.log2.default, 2.0), (aten.log10.default, 10.0))
)

REWRITES: Final = (
    Rewrite(
        aten.log1p.default,
        pointwise(log1p),
        (FLOAT_RESULT,),
        note="a series near zero, where log(1 + x) loses the digits of x",
    ),
    Rewrite(
        aten.expm1.default,
        pointwise(expm1),
        (FLOAT_RESULT,),
        note="a series near zero, where exp(x) - 1 loses the digits of x",
    ),
    Rewrite(
        aten.logit.default,
        in_float32(_logit),
        (
            FLOAT_RESULT,
            Constraint("argument", "eps is at most 0.5, so that the bounds are in order.", _inverted_bounds),
        ),
        note="in float32",
    ),
    *(
        Rewrite(target, pointwise(_xlogy, 2), (FLOAT_RESULT,))
        for target in (aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self)
    ),
    *OTHER_BASES,
)

IN_FLOAT32: Final = (
    Rewrite(aten.expm1.default, in_float32(expm1), (FLOAT_RESULT,)),
    Rewrite(aten.log1p.default, in_float32(log1p), (FLOAT_RESULT,)),
)
EXP2_BY_EXP: Final = Rewrite(aten.exp2.default, pointwise(_exp2_by_exp), (FLOAT_RESULT,))
EXP2_IN_FLOAT32: Final = Rewrite(aten.exp2.default, in_float32(_exp2_by_exp), (FLOAT_RESULT,))
BY_ROOTS: Final = tuple(
    Rewrite(
        target, in_float32(log), (FLOAT_RESULT,), note="by a power, an exponential and a series, in float32"
    )
    for target, log in (
        (aten.log.default, lambda x: _log_by_root(x, x - 1.0)),
        (aten.log1p.default, lambda x: _log_by_root(x + 1.0, x)),
    )
)
