# SPDX-License-Identifier: Apache-2.0
"""Powers of any numbers: POW is defined for positive finite bases and finite exponents only."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT
from delegatec.edge.legalize.rules.powers import is_simple
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

_LIMITS: Final = torch.finfo(torch.float32)


def _is_finite(x: Value) -> Value:
    return x.abs().lt(math.inf)


def _positive(x: Value, is_defined: Value) -> Value:
    return is_defined.where(x, 1.0).within(_LIMITS.smallest_normal * _LIMITS.eps, _LIMITS.max)


def _finite(x: Value, is_defined: Value) -> Value:
    return is_defined.where(x, 1.0).within(-_LIMITS.max, _LIMITS.max)


def _by_number(builder: Builder, node: Node) -> Node | None:
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
        power = x.lt(0.0).where(-power, power)
    return power.to(dtype).node


def _of_magnitude(size: Value, exponent: Value) -> Value:
    """Returns a power of a nonnegative base; those that are not defined by way of the logarithm."""
    is_defined = size.gt(0.0) & size.lt(math.inf) & _is_finite(exponent)
    power = _positive(size, is_defined) ** _finite(exponent, is_defined)
    limit = (exponent * size.log()).exp()
    return (exponent.eq(0.0) | size.eq(1.0)).where(1.0, is_defined.where(power, limit))


def _of_number(builder: Builder, node: Node) -> Node:
    """Computes powers of a number."""
    bound, dtype = bind(node), dtype_of(node)
    base = float(bound["self"])
    exponent = value_of(builder, bound["exponent"], dtype).widened()
    if not 0 < base < math.inf:
        return _signed(full(builder, (), base, exponent.dtype), exponent).to(dtype).node
    if base == 1:
        return full(builder, exponent.shape, 1.0, dtype).node
    is_defined = _is_finite(exponent)
    call = builder.call(aten.pow.Scalar, base, _finite(exponent, is_defined).node)
    limit = (exponent * math.log(base)).exp()
    return is_defined.where(Value(builder, call), limit).to(dtype).node


def _signed(x: Value, exponent: Value) -> Value:
    """Returns a power: NaN for negative bases and fractions; odd exponents keep the sign."""
    power = _of_magnitude(x.abs(), exponent)
    is_odd = (exponent - (exponent * 0.5).floor() * 2.0).eq(1.0)
    is_undefined = exponent.ne(exponent.floor()) & x.lt(0.0) & x.gt(-math.inf)
    is_undefined = is_undefined | (exponent.isnan() & x.lt(0.0))
    return is_undefined.where(math.nan, (x.is_negative() & is_odd).where(-power, power))


def _of_tensors(builder: Builder, node: Node) -> Node:
    dtype = dtype_of(node)
    x, exponent = (value_of(builder, each, dtype).widened() for each in bind(node).values())
    return _signed(x, exponent).to(dtype).node


_NOTE: Final = "what POW does not define by others"

REWRITES: Final = (
    Rewrite(aten.pow.Tensor_Scalar, _by_number, (FLOAT_RESULT,), note=_NOTE),
    Rewrite(aten.pow.Scalar, _of_number, (FLOAT_RESULT,), note=_NOTE),
    Rewrite(aten.pow.Tensor_Tensor, _of_tensors, (FLOAT_RESULT,), note=_NOTE),
)
