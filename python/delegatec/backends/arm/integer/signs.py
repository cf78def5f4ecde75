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
    if node.target in _OF_ALL:
        operands = node.args[0] if node.target is aten.cat.default else node.args[:2]
        return float(bind(node).get("alpha", 1)) >= 0 and all(map(each, operands))  # type: ignore[arg-type]
    return node.target in _OF_ONE and each(node.args[0])


def is_below_largest(node: Node) -> bool:
    """Whether the largest element along a dimension is subtracted from a value."""
    if node.target is not aten.sub.Tensor or bind(node)["alpha"] != 1:
        return False
    value, other = node.args[:2]
    for _ in range(_DEPTH):
        if not isinstance(other, Node) or not other.all_input_nodes:
            return False
        if other.target is aten.amax.default:
            return other.args[0] is value
        # logsumexp replaces infinities by 0
        if other.target in MOVES | {aten.masked_fill.Scalar}:
            other = other.args[0]
        else:
            return False
    return False


def product_bound(value: Node, factor: Node, is_quotient: bool) -> float | None:
    """Returns a bound of a value that is divided by its norm; None if it is not.

    Args:
        value: the value.
        factor: another operand.
        is_quotient: whether that is a divisor.
    """
    node = _norm(factor)
    if not is_quotient:
        if _power_of(node) == -0.5:
            return _norm_bound(value, _norm(node.all_input_nodes[0]))
        if node.target is not aten.reciprocal.default:
            return None
        node = _norm(node.all_input_nodes[0])
    return _norm_bound(value, _norm(node.all_input_nodes[0])) if _power_of(node) == 0.5 else None


def _power_of(node: Node) -> float | None:
    if node.target is aten.pow.Tensor_Scalar:
        return float(node.args[1])  # type: ignore[arg-type]
    return 0.5 if node.target is aten.sqrt.default else -0.5 if node.target is aten.rsqrt.default else None


def _norm(node: Node) -> Node:
    """Returns the value before calls that move it, or make it greater."""
    while node.op == "call_function":
        bound = bind(node) if isinstance(node.target, OpOverload) else {}
        other, high = bound.get("other"), bound.get("max")
        is_sum = node.target in (aten.add.Tensor, aten.add.Scalar) and bound["alpha"] == 1
        is_greater = is_sum and isinstance(other, (int, float)) and other >= 0
        is_clamp = node.target in (aten.clamp.default, aten.clamp_min.default) and high is None
        if not (is_greater or is_clamp or node.target in MOVES | {aten._to_copy.default}):
            break
        node = node.all_input_nodes[0]
    return node


def _norm_bound(value: Node, node: Node) -> float | None:
    if node.target not in (aten.mean.dim, aten.sum.dim_IntList):
        return None
    bound = bind(node)
    square = bound["self"]
    if not isinstance(square, Node):
        return None
    is_power = square.target is aten.pow.Tensor_Scalar and square.args[1] == 2
    is_product = square.target is aten.mul.Tensor and square.args[0] is square.args[1]
    if not (is_power or is_product) or square.args[0] is not value:
        return None
    if node.target is aten.sum.dim_IntList:
        return 1.0
    shape = shape_of(value)
    dims = bound["dim"] or range(len(shape))
    return math.sqrt(math.prod(shape[positive(dim, len(shape))] for dim in dims))
