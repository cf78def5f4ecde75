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
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.pointwise import FLOAT_RESULT, NUMBER_RESULT, pointwise
from delegatec.edge.legalize.value import Value, full, value_of

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


def _to_number(x: Value, exponent: float) -> Value:
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
    return x.lt(0.0).where(-size, size) if exponent % 2 else size


def _signed(x: Value, exponent: Value) -> Value:
    """Computes a power of any base: NaN for negative bases and fractions; odd exponents keep the sign."""
    size = x.abs() ** exponent
    is_odd = (exponent - (exponent * 0.5).floor() * 2.0).eq(1.0)
    is_undefined = exponent.ne(exponent.floor()) & _is_finite_negative(x)
    return is_undefined.where(math.nan, (x.is_negative() & is_odd).where(-size, size))


def _is_finite_negative(x: Value) -> Value:
    return x.lt(0.0) & x.ne(-math.inf)


def power_by_number(builder: Builder, node: Node) -> Node:
    """Computes a power whose exponent is a number; that of an integer is not negative."""
    bound, dtype = bind(node), dtype_of(node)
    exponent = bound["exponent"]
    if exponent == 0:
        return full(builder, shape_of(node), 1, dtype).node
    x = value_of(builder, bound["self"], dtype)
    power = _to_number(x, float(exponent)) if dtype.is_floating_point else _product(x, exponent)
    return power.node


def _of_number(builder: Builder, node: Node) -> Node:
    bound, dtype = bind(node), dtype_of(node)
    base, exponent = float(bound["self"]), value_of(builder, bound["exponent"], dtype)
    if base == 2.0:
        return exponent.exp2().node
    return _signed(exponent.scalar(base), exponent).node


def _exponent(node: Node, _: object) -> str | None:
    exponent = bind(node)["exponent"]
    return None if dtype_of(node).is_floating_point or exponent >= 0 else f"exponent is {exponent}"


REWRITES: Final = (
    Rewrite(
        aten.pow.Tensor_Scalar,
        power_by_number,
        (NUMBER_RESULT, Constraint("argument", "The exponent of an integer is not negative.", _exponent)),
        note="by products if the exponent is an integer of at most 32",
    ),
    Rewrite(aten.pow.Scalar, _of_number, (FLOAT_RESULT,), note="of the magnitude of the base"),
    Rewrite(
        aten.pow.Tensor_Tensor,
        pointwise(_signed, 2),
        (FLOAT_RESULT,),
        note="of the magnitude of the base; the sign is restored",
    ),
)
