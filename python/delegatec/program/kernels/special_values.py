# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that a kernel computes wrongly for NaN, zeros, single elements, no elements or last bits.

The docstring of a rule is the fault that it works around, as measured with the stock runtime 1.4.1.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.legalize.rules.activations import LEAKY_RELU
from delegatec.edge.legalize.rules.softmax import log_softmax_by_arithmetic
from delegatec.edge.legalize.rules.variance import correction_of
from delegatec.edge.symbols import smallest
from delegatec.program.kernels import empty

aten = torch.ops.aten

_HALVES: Final = frozenset({torch.float16, torch.bfloat16})


def _log_softmax(b: Builder, node: Node) -> Node | None:
    """The kernel does not support float64, and returns 0 for any 0-d tensor; and see `empty`."""
    a = bind(node)
    x = a["self"]
    if not shape_of(x):
        return b.call(aten.sub.Tensor, x, x, val=node.meta["val"])
    if dtype_of(x) is not torch.float64 or dtype_of(node) is not torch.float64:
        return empty.log_softmax_of_empty(b, node)
    return log_softmax_by_arithmetic(b, node)


def _leaky_relu(b: Builder, node: Node) -> Node | None:
    """The kernel returns 0 for 0 times a slope that is not finite, instead of NaN."""
    slope = bind(node)["negative_slope"]
    is_finite = not isinstance(slope, Node) and math.isfinite(slope)
    return None if is_finite else LEAKY_RELU.rule(b, node)


def _reduced(node: Node) -> tuple[list[int], int]:
    """Returns the dimensions that a call reduces, and how many elements of static sizes."""
    a = bind(node)
    sizes = shape_of(a["self"])
    dims = [dim % len(sizes) for dim in a["dim"] or range(len(sizes))] if sizes else []
    # a dynamic size may be 1
    return dims, math.prod(size for dim in dims if isinstance(size := sizes[dim], int))


def _var(b: Builder, node: Node) -> Node | None:
    """The kernel returns NaN if there are not more elements than the correction, instead of infinity."""
    a, correction = bind(node), correction_of(node)
    x, dims = a["self"], _reduced(node)[0]
    count = math.prod(shape_of(x)[dim] for dim in dims)
    # of one element and a correction of one, both are NaN
    if not dims or smallest(count) > correction or (not isinstance(count, int) and correction <= 1):
        return None
    centered = b.call(aten.sub.Tensor, x, b.call(aten.mean.dim, x, dims, True))
    squares = b.call(aten.sum.dim_IntList, b.call(aten.mul.Tensor, centered, centered), dims, a["keepdim"])
    if isinstance(count, int):
        return b.call(aten.div.Scalar, squares, 0.0, val=node.meta["val"])
    ones = b.call(aten.full.default, list(shape_of(x)), 1, dtype=dtype_of(x))
    counted = b.call(aten.sum.dim_IntList, ones, dims, a["keepdim"])
    divisor = b.call(aten.clamp.default, b.call(aten.sub.Scalar, counted, correction), 0.0)
    return b.call(aten.div.Tensor, squares, divisor, val=node.meta["val"])


def _var_mean(b: Builder, node: Node) -> list[Node] | None:
    """The kernel returns NaN for the mean of one element; and see `_var`."""
    a = bind(node)
    x, keepdim = a["self"], a["keepdim"]
    dims, count = _reduced(node)
    if count > max(1, correction_of(node)):
        return None
    variance = b.call(aten.var.correction, x, dims, correction=a["correction"], keepdim=keepdim)
    return [variance, b.call(aten.mean.dim, x, dims, keepdim)]


def _floor_divide(b: Builder, node: Node) -> Node | None:
    """The kernel converts a scalar to 16 bits; and see `_floored`."""
    x, y = node.args
    if not isinstance(y, Node) and dtype_of(node) in _HALVES:
        return b.call(aten.div.Scalar_mode, x, y, rounding_mode="floor", val=node.meta["val"])
    return _floored(b, node)


def _floored(b: Builder, node: Node) -> Node | None:
    """The kernels return infinity for 0 / 0 and NaN / 0, and some quotients are not integers: -3.9999998."""
    x, y = node.args
    if not dtype_of(node).is_floating_point or _is_corrected(b, node):
        return None
    if not isinstance(y, Node) and y == 0:
        return b.call(aten.div.Scalar, x, y, val=node.meta["val"])
    quotient = b.call(node.target, x, y, **node.kwargs)
    integral = b.call(aten.round.default, quotient, val=node.meta["val"])
    return _unrounded_by_zero(b, node, integral) if _may_divide_by_zero(b, node) else integral


def _is_corrected(b: Builder, node: Node) -> bool:
    """Whether a quotient has been rounded, and replaced where the divisor is zero."""
    rounded = [user for user in node.users if user.target is aten.round.default]
    if not rounded or len(rounded) < len(node.users) or not _may_divide_by_zero(b, node):
        return bool(rounded) and len(rounded) == len(node.users)
    return all(
        user.target is aten.where.self and user.args[2] is each and _is_zero_of(user.args[0], node.args[1])
        for each in rounded
        for user in each.users
    )


def _is_zero_of(mask: Any, divisor: Any) -> bool:
    return mask.target is aten.eq.Scalar and mask.args == (divisor, 0)


def _rounded_quotient(b: Builder, node: Node) -> Node | None:
    """The kernel truncates 16-bit quotients without rounding them before; and see `_floored`."""
    x, y = node.args
    mode = node.kwargs["rounding_mode"]
    if mode == "trunc" and all(isinstance(z, Node) and dtype_of(z) in _HALVES for z in (x, y)):
        return b.call(aten.trunc.default, b.call(aten.div.Tensor, x, y), val=node.meta["val"])
    return _floored(b, node) if mode == "floor" else None


def _may_divide_by_zero(b: Builder, node: Node) -> bool:
    divisor = b.facts.of(node.args[1])
    return not divisor.low > 0 and not divisor.high < 0


def _unrounded_by_zero(b: Builder, node: Node, quotient: Node) -> Node:
    """Returns the quotient, with the results of a division by zero, which rounding does not change."""
    x, y = node.args
    is_zero = b.call(aten.eq.Scalar, y, 0)
    return b.call(aten.where.self, is_zero, b.call(aten.div.Tensor, x, y), quotient, val=node.meta["val"])


def _rounded_scalar(b: Builder, node: Node) -> Node | None:
    """The kernels do not convert a scalar to 16 bits first, so that x == 0.1 is never true."""
    x, scalar = bind(node).values()
    if isinstance(scalar, Node) or dtype_of(x) not in _HALVES:
        return None
    rounded = float(torch.tensor(scalar, dtype=dtype_of(x)))
    if rounded == scalar or math.isnan(rounded):
        return None
    return b.call(node.target, x, rounded, val=node.meta["val"])


def _exact_quotient(b: Builder, node: Node) -> Node | None:
    """The kernel multiplies by the reciprocal of a scalar: the last bit of a quotient may differ."""
    x, y = bind(node).values()
    if isinstance(y, Node) or abs(math.frexp(y)[0]) in (0.5, 0.0):
        return None
    if not dtype_of(x) is dtype_of(node) is torch.float32 or not _is_rounded(node):
        return None
    quotient = b.call(aten.div.Scalar, b.call(aten._to_copy.default, x, dtype=torch.float64), y)
    return b.call(aten._to_copy.default, quotient, dtype=torch.float32, val=node.meta["val"])


def _is_rounded(node: Node) -> bool:
    """Whether a result is rounded to an integer later, as in quantization, where its last bit counts."""
    pending, seen = [node], {node}
    while pending and len(seen) < _NEAR:
        for user in pending.pop(0).users:
            if user.target is aten.round.default:
                return True
            if user.target in _SCALES and user not in seen:
                seen.add(user)
                pending.append(user)
    return False


# Calls on scales, and the most that are followed.
_SCALES: Final = frozenset(
    {aten.clamp.default, aten.div.Tensor, aten.expand.default, aten.maximum.default, aten.mul.Tensor}
    | {aten.reciprocal.default, aten.unsqueeze.default, aten.view.default}
)
_NEAR: Final = 32

RULES: RuleTable = {
    aten._log_softmax.default: _log_softmax,
    aten.div.Scalar: _exact_quotient,
    aten.div.Scalar_mode: _rounded_quotient,
    aten.div.Tensor_mode: _rounded_quotient,
    **dict.fromkeys(
        (aten.eq.Scalar, aten.ge.Scalar, aten.gt.Scalar, aten.le.Scalar, aten.lt.Scalar, aten.ne.Scalar),
        _rounded_scalar,
    ),
    aten.floor_divide.default: _floor_divide,
    aten.leaky_relu.default: _leaky_relu,
    aten.var.correction: _var,
    aten.var.dim: _var,
    aten.var_mean.correction: _var_mean,
}
