# SPDX-License-Identifier: Apache-2.0
"""Powers, for targets that only support nonnegative bases.

Constant integer exponents become products, as in ATen for small ones.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import (
    FLOAT_RESULT,
    FLOATS,
    NUMERIC_RESULT,
    in_float32,
    pointwise,
)
from delegatec.edge.legalize.value import Value, full, table, value_of

aten = torch.ops.aten

_LARGEST_PRODUCT: Final = 32
"""Largest exponent for which the rounding errors of products are not larger than those of a power."""


def _product(x: Value, exponent: int) -> Value:
    """Computes a positive integer power by squaring."""
    assert exponent > 0
    result: Value | None = None
    while exponent:
        if exponent % 2:
            result = x if result is None else result * x
        exponent //= 2
        if exponent:
            x = x * x
    assert result is not None
    return result


def is_simple(exponent: float) -> bool:
    """Whether a power is computed by roots or products."""
    return abs(exponent) == 0.5 or (float(exponent).is_integer() and abs(exponent) <= _LARGEST_PRODUCT)


def _to_scalar(x: Value, exponent: float) -> Value:
    """Computes a power of floats by a constant other than zero."""
    if abs(exponent) == 0.5:
        return x.sqrt() if exponent > 0 else x.rsqrt()
    if is_simple(exponent):
        product = _product(x, int(abs(exponent)))
        return product if exponent > 0 else product.reciprocal()
    size = x.abs() ** exponent
    if math.isinf(exponent):
        return size
    if not exponent.is_integer():
        return _is_finite_negative(x).where(math.nan, size)
    return _with_sign_of(x, size, exponent) if exponent % 2 else size


def _with_sign_of(x: Value, size: Value, exponent: float) -> Value:
    """Returns an odd power by its magnitude; only a reciprocal of zero shows the sign of a zero."""
    is_negative = x.is_negative() if exponent < 0 else x.lt(0.0)
    return is_negative.where(-size, size)


def _signed(x: Value, exponent: Value) -> Value:
    """Computes a power of any base: NaN for negative bases and fractions; odd exponents keep the sign."""
    size = x.abs() ** exponent
    is_odd = (exponent - (exponent * 0.5).floor() * 2.0).eq(1.0)
    is_undefined = exponent.ne(exponent.floor()) & _is_finite_negative(x)
    return is_undefined.where(math.nan, (x.is_negative() & is_odd).where(-size, size))


def _is_finite_negative(x: Value) -> Value:
    return x.lt(0.0) & x.ne(-math.inf)


def power_by_scalar(builder: Builder, node: Node) -> Node:
    """Computes a power whose exponent is a scalar; that of an integer is not negative."""
    bound, dtype = bind(node), dtype_of(node)
    exponent = bound["exponent"]
    if exponent == 0:
        return full(builder, shape_of(node), 1, dtype).node
    x = value_of(builder, bound["self"], dtype)
    power = _to_scalar(x, float(exponent)) if dtype.is_floating_point else _product(x, exponent)
    return power.node


def _of_scalar(builder: Builder, node: Node) -> Node:
    bound, dtype = bind(node), dtype_of(node)
    base, exponent = float(bound["self"]), value_of(builder, bound["exponent"], dtype)
    if base == 2.0:
        return exponent.exp2().node
    return _signed(exponent.scalar(base), exponent).node


def _exponent(node: Node, _: object) -> str | None:
    exponent = bind(node)["exponent"]
    return None if dtype_of(node).is_floating_point or exponent >= 0 else f"exponent is {exponent}"


# ---- for targets whose power is defined for positive bases and finite values only ------------------------

_FLOAT32: Final = torch.finfo(torch.float32)


def _is_finite(x: Value) -> Value:
    return x.abs().lt(math.inf)


def _positive(x: Value, is_defined: Value) -> Value:
    return is_defined.where(x, 1.0).within(_FLOAT32.smallest_normal * _FLOAT32.eps, _FLOAT32.max)


def _finite(x: Value, is_defined: Value) -> Value:
    return is_defined.where(x, 1.0).within(-_FLOAT32.max, _FLOAT32.max)


def _by_scalar_in_domain(builder: Builder, node: Node) -> Node | None:
    """Computes powers of magnitudes; of zero and infinity they are the base or its reciprocal."""
    bound, dtype = bind(node), dtype_of(node)
    exponent = float(bound["exponent"])
    x = value_of(builder, bound["self"], dtype).widened()
    if is_simple(exponent) or not math.isfinite(exponent):
        is_rounded_once = abs(exponent) <= 1 or exponent == 2
        return None if x.dtype == dtype or is_rounded_once else (x**exponent).to(dtype).node
    size = x.abs()
    is_defined = size.gt(0.0) & size.lt(math.inf)
    other = size if exponent > 0 else size.reciprocal()
    power = is_defined.where(_positive(size, is_defined) ** exponent, other)
    if not exponent.is_integer():
        power = (x.lt(0.0) & x.gt(-math.inf)).where(math.nan, power)
    elif exponent % 2:
        power = _with_sign_of(x, power, exponent)
    return power.to(dtype).node


def _of_magnitude(size: Value, exponent: Value) -> Value:
    """Returns a power of a nonnegative base; those that are not defined by way of the logarithm."""
    is_defined = size.gt(0.0) & size.lt(math.inf) & _is_finite(exponent)
    power = _positive(size, is_defined) ** _finite(exponent, is_defined)
    limit = (exponent * size.log()).exp()
    return (exponent.eq(0.0) | size.eq(1.0)).where(1.0, is_defined.where(power, limit))


def _of_scalar_in_domain(builder: Builder, node: Node) -> Node:
    """Computes powers of a scalar."""
    bound, dtype = bind(node), dtype_of(node)
    base = float(bound["self"])
    exponent = value_of(builder, bound["exponent"], dtype).widened()
    if not 0 < base < math.inf:
        return _signed_in_domain(full(builder, (), base, exponent.dtype), exponent).to(dtype).node
    if base == 1:
        return full(builder, exponent.shape, 1.0, dtype).node
    is_defined = _is_finite(exponent)
    call = builder.call(aten.pow.Scalar, base, _finite(exponent, is_defined).node)
    limit = (exponent * math.log(base)).exp()
    return is_defined.where(Value(builder, call), limit).to(dtype).node


def _signed_in_domain(x: Value, exponent: Value) -> Value:
    """Returns a power: NaN for negative bases and fractions; odd exponents keep the sign."""
    power = _of_magnitude(x.abs(), exponent)
    is_odd = (exponent - (exponent * 0.5).floor() * 2.0).eq(1.0)
    is_undefined = exponent.ne(exponent.floor()) & x.lt(0.0) & x.gt(-math.inf)
    is_undefined = is_undefined | (exponent.isnan() & x.lt(0.0))
    return is_undefined.where(math.nan, (x.is_negative() & is_odd).where(-power, power))


# ---- for targets without powers ---------------------------------------------------------------------------


def _by_logarithm(x: Value, exponent: float) -> Value | None:
    """Returns exp(exponent log(x)), which is NaN for negative x; other rules have multiples of 0.5."""
    is_fraction = math.isfinite(exponent) and float(exponent) * 2 % 1
    return (x.log() * float(exponent)).exp() if is_fraction else None


def _of_positive_number(builder: Builder, node: Node) -> Node | None:
    bound, dtype = bind(node), dtype_of(node)
    base = float(bound["self"])
    if not 0 < base < math.inf or base == 2:
        return None
    exponent = value_of(builder, bound["exponent"], dtype).widened()
    return (exponent * math.log(base)).exp().to(dtype).node


# ---- reciprocals -----------------------------------------------------------------------------------------


def reciprocal(x: Value) -> Value:
    """Returns one, as a constant, divided by a value."""
    return table(x.builder, torch.ones([1] * min(x.rank, 1), dtype=x.dtype)) / x


def _by_reciprocal(x: Value, exponent: float) -> Value | None:
    return None if exponent >= 0 else reciprocal(x**-exponent)


REWRITES: Final = (
    Rewrite(
        aten.pow.Tensor_Scalar,
        power_by_scalar,
        (NUMERIC_RESULT, Constraint("argument", "The exponent of an integer is not negative.", _exponent)),
        note="by products if the exponent is an integer of at most 32",
    ),
    Rewrite(aten.pow.Scalar, _of_scalar, (FLOAT_RESULT,), note="of the magnitude of the base"),
    Rewrite(
        aten.pow.Tensor_Tensor,
        pointwise(_signed, 2),
        (FLOAT_RESULT,),
        note="of the magnitude of the base; the sign is restored",
    ),
)

_IN_DOMAIN: Final = "cases that POW leaves undefined, by other operators"

IN_DOMAIN: Final = (
    Rewrite(aten.pow.Tensor_Scalar, _by_scalar_in_domain, (FLOAT_RESULT,), note=_IN_DOMAIN),
    Rewrite(aten.pow.Scalar, _of_scalar_in_domain, (FLOAT_RESULT,), note=_IN_DOMAIN),
    Rewrite(aten.pow.Tensor_Tensor, in_float32(_signed_in_domain, 2), (FLOAT_RESULT,), note=_IN_DOMAIN),
)
BY_EXP: Final = (
    Rewrite(
        aten.pow.Tensor_Scalar,
        in_float32(_by_logarithm),
        (FLOAT_RESULT,),
        note="exp(c log(x)) in float32 if c is not a multiple of 0.5",
    ),
    Rewrite(
        aten.pow.Scalar, _of_positive_number, (FLOAT_RESULT,), note="exp(x log(c)) in float32 for positive c"
    ),
)
RSQRT_BY_SQRT: Final = Rewrite(
    aten.rsqrt.default,
    pointwise(lambda x: x.sqrt().reciprocal()),
    (FLOAT_RESULT,),
    note="one divided by the square root",
)
RECIPROCAL_BY_DIVISION: Final = Rewrite(aten.reciprocal.default, pointwise(reciprocal), (FLOAT_RESULT,))
NEGATIVE_BY_RECIPROCAL: Final = Rewrite(
    aten.pow.Tensor_Scalar,
    pointwise(_by_reciprocal),
    (operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),),
    note="the reciprocal for negative exponents",
)
