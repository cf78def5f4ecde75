# SPDX-License-Identifier: Apache-2.0
"""Special functions by exp, log and erf, to the accuracy of the dtype over its whole range; and erf."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import Function, FunctionTable, Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, pointwise, polynomial
from delegatec.edge.legalize.rules.powers import reciprocal
from delegatec.edge.legalize.rules.rounding import sign_by_clamp
from delegatec.edge.legalize.value import Value

aten = torch.ops.aten

# Chebyshev coefficients of log(erfc(x) * exp(x**2) / t) over t = 2 / (2 + x) in [0, 1], computed with 40
# digits from 60 nodes. The first 13 are enough for float32.
_ERFCX: Final = (
    *(-0.651326859890854717, 0.64196979235649026, 0.0194764732041858363, -0.00956151478680863164),
    *(-0.000946595344482036866, 0.000366839497852761452, 4.25233248069077716e-05, -2.02785781125342432e-05),
    *(-1.62429000464702551e-06, 1.3036558355805232e-06, 1.56264417220661432e-08, -8.52380959149265425e-08),
    *(6.5290544390988515e-09, 5.05934349555146894e-09, -9.91364156493033087e-10, -2.27365122293183586e-10),
    *(9.6467911020155268e-11, 2.39403808303911474e-12, -6.8860275264975534e-12, 8.94487927309072572e-13),
    *(3.13092139934295808e-13, -1.12708223613672524e-13, 3.81090525518923206e-16, 7.10609761360923699e-15),
    *(-1.5230282014571043e-15, -9.457494571291234e-17, 1.21023718922427899e-16),
)
_ENOUGH_FOR_FLOAT32: Final = 13

# Coefficients of the asymptotic series, from Bernoulli numbers: B(2k) / (2k (2k - 1)) and B(2k) / 2k.
_STIRLING: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_DIGAMMA: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)
# From here on the series is as accurate as float64 is; as float32 is, from 3 on.
_ASYMPTOTIC: Final = 10
# Coefficients of log(gamma(x)) / ((x - 1) (x - 2)) in x - 2 over [1, 3], from Chebyshev series.
_BETWEEN_ROOTS: Final = {
    torch.float32: (
        *(0.4227843357, -0.1003172731, 0.03296494688, -0.01238497512, 0.004999480513),
        *(-0.002102061579, 0.0009105063088, -0.0004255713697, 0.0001957994742, -5.241944203e-5),
        *(2.024937682e-5, -3.873420964e-5, 1.930875049e-5),
    ),
    torch.float64: (
        *(0.42278433509846714, -0.1003173016743539, 0.032965000621155737),
        *(-0.012384192193374356, 0.0049986411647038771, -0.0021081308338291314),
        *(0.00091537692206067879, -0.00040570739993875171, 0.00018255264197705732),
        *(-8.3095099946784895e-5, 3.8168862813724325e-5, -1.76618554743359e-5),
        *(8.2223475245535897e-6, -3.8465142426634735e-6, 1.8074596187759183e-6),
        *(-8.5548169571227288e-7, 4.0556328878243746e-7, -1.8613158181472911e-7),
        *(8.7459726655535557e-8, -5.2038665332275675e-8, 2.6247261052647616e-8),
        *(-7.8607446870830561e-10, -7.6031618173372642e-10, -8.9520228367097018e-9),
        *(4.9278786858072305e-9, 2.4694237633377505e-9, -1.38994451662441e-9),
        *(-8.1900377835511558e-10, 4.2453673576593123e-10),
    ),
}

# Abramowitz and Stegun, 7.1.26: erf(x) = 1 - t (a1 + t (a2 + ...)) exp(-x^2) with t = 1 / (1 + p x), for
# x >= 0, to 1.5e-7.
_ERF_P: Final = 0.3275911
_ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
# Coefficients in x^2 of erf(x) / x in [-0.5, 0.5], fitted to the least largest relative error, 4e-9.
_ERF_NEAR_ZERO: Final = (1.128379163, -0.3761258606, 0.1128244506, -0.02673503478, 0.004675904157)
_LEAST_ROOT: Final = {torch.float32: 1e-30, torch.float16: 2.0**-14, torch.bfloat16: 1e-30}


def _of_floats(function: Callable[[Tensor], Tensor]) -> Function:
    """Returns a function that computes integers and 16-bit floats in float32."""

    def of_any(x: Tensor) -> Tensor:
        if x.dtype in (torch.float32, torch.float64):
            return function(x)
        result = function(x.to(torch.float32))
        return result.to(x.dtype) if x.is_floating_point() else result

    return of_any


def _log_erfcx_over_t(x: Tensor, t: Tensor) -> Tensor:
    """Evaluates the Chebyshev series by Clenshaw's recurrence."""
    coefficients = _ERFCX[:_ENOUGH_FOR_FLOAT32] if x.dtype is torch.float32 else _ERFCX
    u = 4 * t - 2
    later, last = torch.zeros_like(u), torch.zeros_like(u)
    for coefficient in reversed(coefficients[1:]):
        later, last = u * later - last + coefficient, later
    return u / 2 * later - last + coefficients[0]


def _tail(x: Tensor) -> Tensor:
    """Computes erfc(x) for x >= 0."""
    t = 2 / (2 + x)
    return t * torch.exp(_log_erfcx_over_t(x, t) - x * x)


def _erfc(x: Tensor) -> Tensor:
    size = x.abs()
    tail = _tail(torch.where(torch.isinf(size), 100.0, size))
    return torch.where(size < 0.5, 1 - torch.erf(x), torch.where(x < 0, 2 - tail, tail))


def _erfcx(x: Tensor) -> Tensor:
    size = x.abs()
    t = 2 / (2 + size)
    scaled = t * torch.exp(_log_erfcx_over_t(size, t))
    return torch.where(x < 0, 2 * torch.exp(x * x) - scaled, scaled)


def _erfc_inverse(q: Tensor) -> Tensor:
    """Inverts erfc on [0, 1] by a closed form with 3 digits (Winitzki) and two Halley iterations."""
    shape = 0.147
    log = torch.log(q) + torch.log(2 - q)
    z = 2 / (math.pi * shape) + log / 2
    x = torch.sqrt(-log / shape / (torch.sqrt(z * z - log / shape) + z))
    for _ in range(2):
        error = (torch.where(x < 0.5, 1 - torch.erf(x), _tail(x)) - q) * torch.exp(x * x)
        step = error * (math.sqrt(math.pi) / 2)
        x = x + step / (1 - x * step)
    return torch.where(q == 0, math.inf, x)


def _erfinv(y: Tensor) -> Tensor:
    size = y.abs()
    far = _erfc_inverse(1 - torch.clamp(size, min=0.25))
    # near 0, where 1 - y would lose digits, as would erf on some backends: the series
    terms = _erfinv_terms(16 if y.dtype == torch.float64 else 8)
    square = y * y
    near = torch.full_like(y, terms[-1])
    for term in reversed(terms[:-1]):
        near = near * square + term
    return torch.where(size < 0.25, near * y, torch.where(y < 0, -far, far))


@functools.cache
def _erfinv_terms(count: int) -> list[float]:
    """Returns the first factors of y, y**3, y**5 ... in the Maclaurin series."""
    c = [1.0]
    for k in range(1, count):
        c.append(sum(c[m] * c[k - 1 - m] / ((m + 1) * (2 * m + 1)) for m in range(k)))
    return [each / (2 * k + 1) * (math.sqrt(math.pi) / 2) ** (2 * k + 1) for k, each in enumerate(c)]


def _ndtri(p: Tensor) -> Tensor:
    """Computes the quantile of the normal distribution."""
    low = p < 0.5
    x = _erfc_inverse(2 * torch.where(low, p, 1 - p)) * math.sqrt(2)
    return torch.where(low, -x, x)


def _series(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Computes the sum of c[k] / x**(2k)."""
    inverse = 1 / (x * x)
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * inverse + coefficient
    return total


def _lgamma(x: Tensor) -> Tensor:
    reflected = x < 0.5
    y = torch.where(reflected, 1 - x, x)
    # in [1, 3], where the roots are; gamma(y) = gamma(y + 1) / y
    below = y < 1
    z = torch.where(below, y - 1, torch.clamp(y, max=3) - 2)
    near = torch.zeros_like(z)
    for coefficient in reversed(_BETWEEN_ROOTS[x.dtype]):
        near = near * z + coefficient
    near = near * z * (z + 1)
    near = torch.where(below, near - torch.log(y), near)
    result = torch.where(y < 3, near, _stirling(y))
    sine = torch.sin(math.pi * (x - torch.round(x))).abs()
    result = torch.where(reflected, math.log(math.pi) - torch.log(sine) - result, result)
    pole = (x <= 0) & (torch.floor(x) == x)
    return torch.where(pole | torch.isinf(x), math.inf, result)


def _stirling(x: Tensor) -> Tensor:
    """Computes the logarithm of gamma(x) for x >= 3."""
    if x.dtype is torch.float32:
        moved, correction = x, None
    else:
        # shifted to the range where the series is accurate
        small = x < _ASYMPTOTIC
        moved = torch.where(small, x + _ASYMPTOTIC, x)
        product = reduce(torch.mul, [x + k for k in range(_ASYMPTOTIC)])
        correction = torch.where(small, torch.log(product), 0)
    result = (moved - 0.5) * torch.log(moved) - moved + math.log(2 * math.pi) / 2
    result = result + _series(moved, _STIRLING) / moved
    return result if correction is None else result - correction


def _digamma(x: Tensor) -> Tensor:
    reflected = x < 0
    y = torch.where(reflected, 1 - x, x)
    small = y < _ASYMPTOTIC
    correction = torch.zeros_like(y)
    for k in range(_ASYMPTOTIC):
        correction = correction + 1 / (y + k)
    moved = torch.where(small, y + _ASYMPTOTIC, y)
    result = torch.log(moved) - 0.5 / moved - _series(moved, _DIGAMMA) / (moved * moved)
    result = torch.where(small, result - correction, result)
    # the poles are NaN, except 0, which is infinite with the opposite sign
    fraction = x - torch.round(x)
    turned = result - math.pi * torch.cos(math.pi * fraction) / torch.sin(math.pi * fraction)
    result = torch.where(reflected, torch.where(fraction == 0, math.nan, turned), result)
    return torch.where(x == 0, -torch.reciprocal(x), result)


def erf(x: Value) -> Value:
    """Computes erf to 1.5e-7."""
    size = x.abs()
    t = reciprocal(size * _ERF_P + 1.0)
    magnitude = 1.0 - polynomial(t, _ERF) * t * (-(x * x)).exp()
    return x.lt(0.0).where(-magnitude, magnitude)


def _erf_by_exp(x: Value) -> Value:
    """Computes erf by a series near zero, where the difference of one and a value near one has no digits."""
    near = x * polynomial(x * x, _ERF_NEAR_ZERO)
    return x.abs().lt(0.5).where(near, erf(x))


def _erf_by_gelu(x: Value) -> Value:
    """Computes 2 gelu(s) / s - 1 for s = sqrt(2) |x|, with the sign of x."""
    # beyond the upper bound, the quotient of infinities is NaN
    s = (x.abs() * math.sqrt(2)).clamp(_LEAST_ROOT[x.dtype], 100.0)
    return (s.gelu() / s * 2.0 - 1.0) * sign_by_clamp(x)


FUNCTIONS: FunctionTable = {
    aten.digamma.default: _of_floats(_digamma),
    aten.erfc.default: _of_floats(_erfc),
    aten.erfinv.default: _of_floats(_erfinv),
    aten.lgamma.default: _of_floats(_lgamma),
    aten.special_erfcx.default: _of_floats(_erfcx),
    aten.special_ndtri.default: _of_floats(_ndtri),
}

ERF_BY_EXP: Final = Rewrite(
    aten.erf.default, pointwise(_erf_by_exp), (FLOAT_RESULT,), note="to 1.5e-7, by a series near zero"
)
ERF_BY_GELU: Final = Rewrite(
    aten.erf.default,
    pointwise(_erf_by_gelu),
    (FLOAT_RESULT,),
    note="by gelu; the absolute error is 3e-7",
)
