# SPDX-License-Identifier: Apache-2.0
"""Facts that follow from the calls before a value: its sign, and bounds of values divided by their norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.arm.integer.conversion import MOVES
from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.patterns.formulas import reciprocal, rsqrt, sqrt
from delegatec.edge.patterns.match import Match
from delegatec.edge.patterns.pattern import Call, Pattern, Through, Var

aten = torch.ops.aten

_POSITIVE: Final = frozenset(
    {
        *(aten.exp.default, aten.exp2.default, aten.abs.default, aten.sigmoid.default, aten.softplus.default),
        *(aten.relu.default, aten.sqrt.default, aten.rsqrt.default, aten._softmax.default, aten.cosh.default),
        *(aten.hardsigmoid.default, aten.var.correction, aten.std.correction),
    }
)
_OF_ALL: Final = frozenset(
    {
        *(aten.add.Tensor, aten.add.Scalar, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor),
        *(aten.div.Scalar, aten.minimum.default, aten.cat.default),
    }
)
_OF_ONE: Final = MOVES | {
    *(aten.sum.dim_IntList, aten.sum.default, aten.mean.dim, aten.mean.default, aten.amax.default),
    *(aten.amin.default, aten.reciprocal.default, aten._to_copy.default),
}
_PRODUCTS: Final = frozenset({aten.mul.Scalar, aten.mul.Tensor})
_DEPTH: Final = 12


def is_positive(node: Any, constant: Callable[[Node], Tensor | None], depth: int = _DEPTH) -> bool:
    """Whether a value is known not to be negative."""
    if not isinstance(node, Node):
        return isinstance(node, (int, float)) and node >= 0
    found = constant(node)
    if found is not None:
        return found.dtype.is_floating_point and bool((found >= 0).all())
    if node.op != "call_function" or not depth or node.target in _POSITIVE:
        return node.target in _POSITIVE

    def each(value: Any) -> bool:
        return is_positive(value, constant, depth - 1)

    if node.target is aten.pow.Tensor_Scalar:
        return bool(node.args[1] % 2 == 0) or each(node.args[0])  # type: ignore[operator]
    if node.target is aten.mul.Tensor and node.args[0] is node.args[1]:
        return True
    if node.target in (aten.clamp.default, aten.clamp_min.default):
        low = bind(node)["min"]
        return (low is not None and each(low)) or each(node.args[0])
    if node.target is aten.maximum.default:
        return any(map(each, node.args))
    if node.target is aten.where.self:
        return all(map(each, node.args[1:]))
    if node.target in _OF_ALL:
        operands = node.args[0] if node.target is aten.cat.default else node.args[:2]
        return float(bind(node).get("alpha", 1)) >= 0 and all(map(each, operands))  # type: ignore[arg-type]
    return node.target in _OF_ONE and each(node.args[0])


def is_negative(node: Node, constant: Callable[[Node], Tensor | None]) -> bool:
    """Whether a value is known to be the negation of one that is not negative."""
    factor = -1.0 if node.target is aten.neg.default else node.args[1] if node.target in _PRODUCTS else 0.0
    return isinstance(factor, (int, float)) and factor < 0 and is_positive(node.args[0], constant)


def is_positive_term(value: Node, total: Node, constant: Callable[[Node], Tensor | None]) -> bool:
    """Whether a value is a term of a sum of values that are known not to be negative."""
    if total.target is not aten.add.Tensor or value not in total.args or total.kwargs:
        return False
    return all(is_positive(each, constant) for each in total.args)


def is_below_largest(node: Node) -> bool:
    """Whether the largest element along a dimension is subtracted from a value."""
    return _BELOW_LARGEST.first(node) is not None


def product_bound(value: Node, factor: Node, is_quotient: bool) -> float | None:
    """Returns a bound of a value that is divided by its norm; None if it is not.

    Args:
        value: the value.
        factor: another operand.
        is_quotient: whether that is a divisor.
    """
    found = (_NORM if is_quotient else _INVERSE_NORM).first(factor, Match(values={"x": value}))
    return None if found is None else _norm_bound(value, found.values["total"])


def _norm_bound(value: Node, total: Node) -> float:
    if total.target is aten.sum.dim_IntList:
        return 1.0
    shape = shape_of(value)
    dims = bind(total)["dim"] or range(len(shape))
    return math.sqrt(math.prod(shape[positive(dim, len(shape))] for dim in dims))


def _moves(node: Node) -> bool:
    # logsumexp replaces infinities by 0
    return node.target in MOVES or node.target is aten.masked_fill.Scalar


def _keeps_bound(node: Node) -> bool:
    """Whether a call moves a value, or makes it greater."""
    bound = bind(node) if isinstance(node.target, OpOverload) else {}
    other = bound.get("other")
    if node.target in (aten.add.Tensor, aten.add.Scalar):
        return bound["alpha"] == 1 and isinstance(other, (int, float)) and other >= 0
    is_clamp = node.target in (aten.clamp.default, aten.clamp_min.default) and bound.get("max") is None
    return is_clamp or node.target in MOVES or node.target is aten._to_copy.default


def _before(inner: Pattern) -> Pattern:
    return Through(inner, _keeps_bound)


_X: Final = Var("x")
_BELOW_LARGEST: Final = _X - Through(Call(aten.amax.default, _X, ...), _moves)
_TOTAL: Final = Call((aten.mean.dim, aten.sum.dim_IntList), _X * _X | _X**2, ...).named("total")
_NORM: Final = _before(sqrt(_before(_TOTAL)))
_INVERSE_NORM: Final = _before(rsqrt(_before(_TOTAL)) | reciprocal(_NORM))
