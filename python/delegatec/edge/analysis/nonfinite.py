# SPDX-License-Identifier: Apache-2.0
"""Elements that may be NaN or infinite, although the operands of their expression are finite.

An expression is what elementwise operators and softmax compute from inputs, constants, and results of other
operators, such as layers and reductions. These are taken to be finite, as are sums and products that only
overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch.fx import Node

from delegatec.edge.analysis.facts import Facts
from delegatec.edge.analysis.interval import UNKNOWN, Interval
from delegatec.edge.analysis.least import LeastValues
from delegatec.edge.analysis.transparent import elements_of, overloads
from delegatec.edge.arguments import bind


class Special(NamedTuple):
    """Which special values an element may be."""

    nan: bool = False
    high: bool = False
    low: bool = False

    @property
    def is_infinite(self) -> bool:
        """Whether it may be infinity or minus infinity."""
        return self.high or self.low


class _Operand(NamedTuple):
    """What is known about an operand: its special values, and the interval of the others."""

    special: Special
    interval: Interval

    @property
    def may_vanish(self) -> bool:
        return self.interval.low <= 0 <= self.interval.high


_FINITE: Final = Special()
_ANY: Final = Special(True, True, True)
_OVERFLOW: Final = math.log(torch.finfo(torch.float16).max)
"""The smallest of all dtypes: a delegate may compute in float16."""

_Rule = Callable[..., Special]


def _propagated(*operands: _Operand) -> Special:
    kinds = [each.special for each in operands]
    return Special(*(any(several) for several in zip(*kinds, strict=True))) if kinds else _FINITE


def _nan(*operands: _Operand) -> bool:
    return any(each.special.nan for each in operands)


def _sum(a: _Operand, b: _Operand) -> Special:
    opposite = (a.special.high and b.special.low) or (a.special.low and b.special.high)
    return _propagated(a, b)._replace(nan=_nan(a, b) or opposite)


def _difference(a: _Operand, b: _Operand) -> Special:
    return _sum(a, b._replace(special=_negated(b)))


def _negated(x: _Operand) -> Special:
    return Special(x.special.nan, x.special.low, x.special.high)


def _signs(is_infinite: bool, nan: bool) -> Special:
    return Special(nan, is_infinite, is_infinite)


def _product(a: _Operand, b: _Operand) -> Special:
    indefinite = (a.special.is_infinite and b.may_vanish) or (b.special.is_infinite and a.may_vanish)
    (nan, high, low), (other_nan, other_high, other_low) = a.special, b.special
    return Special(
        nan or other_nan or indefinite,
        (high and b.interval.high > 0)
        or (low and b.interval.low < 0)
        or (other_high and a.interval.high > 0)
        or (other_low and a.interval.low < 0),
        (high and b.interval.low < 0)
        or (low and b.interval.high > 0)
        or (other_high and a.interval.low < 0)
        or (other_low and a.interval.high > 0),
    )


def _quotient(a: _Operand, b: _Operand) -> Special:
    indefinite = (a.may_vanish and b.may_vanish) or (a.special.is_infinite and b.special.is_infinite)
    return _signs(a.special.is_infinite or b.may_vanish, _nan(a, b) or indefinite)


def _remainder(a: _Operand, b: _Operand) -> Special:
    return _propagated(b)._replace(nan=_nan(a, b) or a.special.is_infinite or b.may_vanish)


def _logarithm(least: float) -> _Rule:
    """Returns the rule of a logarithm that is minus infinity for `least`."""

    def rule(x: _Operand) -> Special:
        below = x.interval.low < least or x.special.low
        return Special(_nan(x) or below, x.special.high, x.interval.low <= least)

    return rule


def _root(x: _Operand) -> Special:
    return Special(_nan(x) or x.interval.low < 0 or x.special.low, x.special.high, False)


def _inverse_root(x: _Operand) -> Special:
    return _signs(x.interval.low <= 0, _nan(x) or x.interval.low < 0 or x.special.low)  # also of -0.0


def _exponential(x: _Operand) -> Special:
    return Special(_nan(x), x.interval.high > _OVERFLOW, False)


def _hyperbolic(x: _Operand) -> Special:
    return _signs(x.interval.high > _OVERFLOW or x.interval.low < -_OVERFLOW, _nan(x))


def _power(x: _Operand, exponent: _Operand) -> Special:
    low, high, _ = exponent.interval
    if low != high:
        return Special(_nan(x, exponent), high=True) if x.interval.low > 0 else _ANY
    is_root = not float(low).is_integer() and (x.interval.low < 0 or x.special.low)
    return _signs(x.special.is_infinite or (low < 0 and x.may_vanish), _nan(x) or is_root)


def _periodic(x: _Operand) -> Special:
    return Special(_nan(x) or x.special.is_infinite)


def _within(low: float, high: float) -> _Rule:
    """Returns the rule of a function that is NaN outside of a domain."""

    def rule(x: _Operand) -> Special:
        outside = x.interval.low < low or x.interval.high > high or x.special.is_infinite
        return _signs(outside or math.isfinite(high), _nan(x) or outside)

    return rule


def _logit(x: _Operand, eps: _Operand) -> Special:
    return _bounded(x) if eps.interval != UNKNOWN else _within(0, 1)(x)


def _scaled_logarithm(x: _Operand, y: _Operand) -> Special:
    """The rule of x log(y), which is zero if x is, unless y is NaN."""
    return _propagated(x, y)._replace(nan=_nan(x, y) or y.interval.low < 0 or y.special.low)


def _bounded(x: _Operand) -> Special:
    return Special(_nan(x))


def _clamp(x: _Operand, least: _Operand, most: _Operand) -> Special:
    high = x.special.high and most.interval == UNKNOWN
    return Special(_nan(x, least, most), high, x.special.low and least.interval == UNKNOWN)


def _silu(x: _Operand) -> Special:
    """The rule of x times a factor, which is zero for minus infinity."""
    return Special(_nan(x) or x.special.low, x.special.high, False)


def _gelu(x: _Operand) -> Special:
    """The rule of such a product that is also NaN for infinity in vector code."""
    return Special(_nan(x) or x.special.is_infinite, x.special.high, False)


def _softmax(x: _Operand) -> Special:
    """The rule of a softmax, which is NaN for a row of minus infinities, as masks make."""
    return Special(_nan(x) or x.special.is_infinite)


def _log_softmax(x: _Operand) -> Special:
    return _softmax(x)._replace(low=x.special.low)


def _magnitude(x: _Operand) -> Special:
    return Special(_nan(x), x.special.is_infinite, False)


def _rows(names: str, rule: _Rule, *operands: str) -> dict[Any, tuple[tuple[str, ...], _Rule]]:
    return dict.fromkeys(overloads(names), (operands, rule))


_RULES: Final = {
    **_rows("add.Tensor add.Scalar", _sum, "self", "other"),
    **_rows("sub.Tensor sub.Scalar", _difference, "self", "other"),
    **_rows("rsub.Tensor rsub.Scalar", _difference, "other", "self"),
    **_rows("mul.Tensor mul.Scalar", _product, "self", "other"),
    **_rows("div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode", _quotient, "self", "other"),
    **_rows("remainder.Tensor remainder.Scalar fmod.Tensor fmod.Scalar", _remainder, "self", "other"),
    **_rows("maximum minimum", _propagated, "self", "other"),
    **_rows("neg", _negated, "self"),
    **_rows("abs", _magnitude, "self"),
    **_rows("log log2 log10", _logarithm(0), "self"),
    **_rows("log1p", _logarithm(-1), "self"),
    **_rows("sqrt", _root, "self"),
    **_rows("rsqrt", _inverse_root, "self"),
    **_rows("exp exp2 expm1", _exponential, "self"),
    **_rows("sinh cosh", _hyperbolic, "self"),
    **_rows("pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar", _power, "self", "exponent"),
    **_rows("sin cos tan", _periodic, "self"),
    **_rows("asin acos atanh", _within(-1, 1), "self"),
    **_rows("logit", _logit, "self", "eps"),
    **_rows("xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other", _scaled_logarithm, "self", "other"),
    **_rows("acosh", _within(1, math.inf), "self"),
    **_rows("clamp", _clamp, "self", "min", "max"),
    **_rows("tanh sigmoid erf atan hardtanh sign", _bounded, "self"),
    **_rows("silu", _silu, "self"),
    **_rows("gelu", _gelu, "self"),
    **_rows("_softmax softmax.int", _softmax, "self"),
    **_rows("_log_softmax log_softmax.int", _log_softmax, "self"),
    **_rows("floor ceil round trunc relu leaky_relu elu asinh _to_copy", _propagated, "self"),
}
_RECIPROCALS: Final = frozenset(overloads("reciprocal"))


class Specials:
    """The special values of a program's nodes, computed on demand and memoized.

    Args:
        facts: intervals of the program's values.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._least = LeastValues(facts)
        self._known: dict[Node, Special] = {}

    def of(self, value: Any) -> Special:
        """Returns which special values a node's elements, or a scalar, may be."""
        if not isinstance(value, Node):
            return self._of_leaf(value)
        # Chains of operators are longer than Python's recursion limit.
        pending = [value]
        while pending:
            node = pending[-1]
            names, _ = _operands_and_rule(node)
            if missing := [each for each in names if isinstance(each, Node) and each not in self._known]:
                pending += missing
                continue
            pending.pop()
            if node not in self._known:
                self._known[node] = self._computed(node)
        return self._known[value]

    def _computed(self, node: Node) -> Special:
        operands, rule = _operands_and_rule(node)
        if rule is None:
            return self._of_leaf(node)
        return rule(*(self._operand(each) for each in operands))

    def _operand(self, value: Any) -> _Operand:
        special = self._known[value] if isinstance(value, Node) else self._of_leaf(value)
        if value is None:
            return _Operand(special, UNKNOWN)
        interval = self._facts.of(value)
        return _Operand(special, interval._replace(low=max(interval.low, self._least.of(value))))

    def _of_leaf(self, value: Any) -> Special:
        if isinstance(value, Node):
            constant = self._facts.constant(value)
            if constant is None or not constant.dtype.is_floating_point:
                return _FINITE
            found = constant.float() if constant.dtype.itemsize == 1 else constant
            return Special(
                bool(found.isnan().any()), bool((found == math.inf).any()), bool((found == -math.inf).any())
            )
        if not isinstance(value, (int, float)):
            return _FINITE
        return Special(math.isnan(value), value == math.inf, value == -math.inf)


def _operands_and_rule(node: Node) -> tuple[list[Any], _Rule | None]:
    if node.target in _RECIPROCALS:
        return [1.0, node.args[0]], _quotient
    if node.target in _RULES:
        names, rule = _RULES[node.target]
        bound = bind(node)
        return [bound[name] for name in names], rule
    elements = elements_of(node)
    return ([], None) if elements is None else (elements, _propagated)
