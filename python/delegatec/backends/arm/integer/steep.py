# SPDX-License-Identifier: Apache-2.0
"""Conversion of reciprocals, quotients, roots and logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.integer import floating
from delegatec.backends.arm.integer.conversion import Conversion, Convert
from delegatec.backends.arm.integer.elementwise import add, multiply
from delegatec.backends.arm.integer.functions import function_of
from delegatec.backends.arm.integer.signs import (
    is_below_largest,
    is_negative,
    is_positive,
    is_positive_term,
    product_bound,
)
from delegatec.backends.arm.integer.values import (
    Fixed,
    Floating,
    Quantity,
    Quantized,
    TableFunction,
    UnsupportedError,
)
from delegatec.edge.arguments import bind

aten = torch.ops.aten

_ROOTS: Final[Mapping[float, Any]] = {
    -1.0: aten.reciprocal.default,
    -0.5: aten.rsqrt.default,
    0.5: aten.sqrt.default,
}
_LEAST: Final = 2.0**-15
"""The least divisor, relative to its bound, if the range of quotients is not known."""
_PRECISION: Final = 2**13
"""Quotients have 30 bits; this is for the largest dividend and the least divisor."""
_SMALL: Final = 1.0
"""A bound of values for which log1p is a product."""
_BASES: Final = {aten.log.default: math.e, aten.log2.default: 2.0, aten.log10.default: 10.0}


def _is_steep(value: Quantity) -> bool:
    """Whether a table of the function would be too coarse."""
    source = value.source if isinstance(value, TableFunction) else value
    return isinstance(source, Quantized) and source.dtype != torch.int8


def _function(function: Callable[[Tensor], Tensor], target: Any) -> Convert:
    def convert(conversion: Conversion, node: Node) -> Quantity | Floating:
        operand: Any = node.args[0]
        value = conversion.of(operand)
        if not _is_steep(value):
            return function_of(conversion, value, operand, function)
        return _of_accumulators(conversion, value, target, operand, _reach(conversion, node))

    return convert


def _of_accumulators(
    conversion: Conversion, value: Quantity, target: Any, operand: Node, result: float | None
) -> Quantity | Floating:
    if target is aten.rsqrt.default:
        return floating.inverse_root(conversion, value)
    if target is aten.sqrt.default:
        return floating.root(conversion, value)
    if target is aten.reciprocal.default:
        least = value.bound * _LEAST if result is None else 1 / result
        return floating.reciprocal(conversion, value, not is_positive(operand, conversion.constant), least)
    if target is aten.exp.default:
        is_small = is_below_largest(operand) or is_negative(operand, conversion.constant)
        most = 0.0 if is_small else value.bound
        most = most if result is None else min(most, math.log(result))
        return floating.exponential(conversion, value, most)
    if target is aten.log1p.default:
        if value.bound <= _SMALL:
            return multiply(conversion, value, function_of(conversion, value, operand, _relative))
        value = add(conversion, [value, Fixed(torch.tensor(1.0, dtype=torch.float64))], (1, 1), 1.0)
    return floating.logarithm(conversion, value, _BASES.get(target, math.e))


def _relative(x: Tensor) -> Tensor:
    """Returns log1p(x) / x, which varies little: the sum of a small value and 1 would lose the value."""
    x = x.clamp(min=-0.99)
    return torch.where(x.abs() < 1e-9, 1.0, torch.log1p(x) / torch.where(x == 0, 1.0, x))


def _power(conversion: Conversion, node: Node) -> Quantity | Floating:
    """Converts squares to products, and other powers to functions."""
    operand: Any = node.args[0]
    exponent: Any = node.args[1]
    value = conversion.of(operand)
    if exponent == 2 and not isinstance(value, Fixed):
        return multiply(conversion, value, value)
    if exponent in _ROOTS and _is_steep(value):
        return _of_accumulators(conversion, value, _ROOTS[exponent], operand, _reach(conversion, node))
    return function_of(conversion, value, operand, lambda x: torch.pow(x, exponent))


def _quotient(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    if bound.get("rounding_mode") is not None:
        raise UnsupportedError("the rounded quotient of two values")
    divisor = conversion.of(bound["other"])
    if isinstance(divisor, Fixed):
        inverse = Fixed(divisor.values.to(torch.float64).reciprocal())
        return multiply(conversion, conversion.of(bound["self"]), inverse)
    if not _is_steep(divisor):
        other = function_of(conversion, divisor, bound["other"], torch.reciprocal)
        return multiply(conversion, conversion.of(bound["self"]), other)
    signed = not is_positive(bound["other"], conversion.constant)
    dividend = conversion.of(bound["self"])
    reach = _reach(conversion, node) or _bound(conversion, bound["self"], bound["other"], True)
    least = dividend.bound / reach / _PRECISION if reach else divisor.bound * _LEAST
    found = floating.times(conversion, floating.reciprocal(conversion, divisor, signed, least), dividend)
    return _limited(conversion, found, bound["self"], bound["other"], is_quotient=True)


def _product(conversion: Conversion, node: Node) -> Quantity:
    bound = bind(node)
    for name, other in (("self", "other"), ("other", "self")):
        factor = conversion.factor(bound[name])
        if isinstance(factor, Floating):
            found = floating.times(conversion, factor, conversion.of(bound[other]))
            return _limited(conversion, found, bound[other], bound[name], is_quotient=False)
    return multiply(conversion, conversion.of(bound["self"]), conversion.of(bound["other"]))


def _limited(
    conversion: Conversion, found: Quantized, value: Any, factor: Any, is_quotient: bool
) -> Quantized:
    """Narrows the range of a value that is divided by its norm, or by a sum that it is a term of."""
    bound = _bound(conversion, value, factor, is_quotient)
    return found if bound is None else replace(found, low=-bound, high=bound)


def _bound(conversion: Conversion, value: Any, factor: Any, is_quotient: bool) -> float | None:
    if not isinstance(value, Node) or not isinstance(factor, Node):
        return None
    if is_quotient and is_positive_term(value, factor, conversion.constant):
        return 1.0
    return product_bound(value, factor, is_quotient)


def _reach(conversion: Conversion, node: Node) -> float | None:
    """Returns the largest representable absolute value, if the value is quantized."""
    to = conversion.target(node)
    return (
        None
        if to is None or to.dtype == torch.int32
        else max(abs(to.low - to.zero_point), to.high - to.zero_point) * to.scale
    )


STEEP: Final[Mapping[Any, Convert]] = {
    aten.rsqrt.default: _function(torch.rsqrt, aten.rsqrt.default),
    aten.sqrt.default: _function(torch.sqrt, aten.sqrt.default),
    aten.reciprocal.default: _function(torch.reciprocal, aten.reciprocal.default),
    aten.exp.default: _function(torch.exp, aten.exp.default),
    aten.log.default: _function(torch.log, aten.log.default),
    aten.log2.default: _function(torch.log2, aten.log2.default),
    aten.log10.default: _function(torch.log10, aten.log10.default),
    aten.log1p.default: _function(torch.log1p, aten.log1p.default),
    aten.pow.Tensor_Scalar: _power,
    aten.div.Tensor: _quotient,
    aten.div.Scalar: _quotient,
    aten.mul.Tensor: _product,
    aten.mul.Scalar: _product,
}
