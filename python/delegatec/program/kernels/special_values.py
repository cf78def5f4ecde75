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

aten = torch.ops.aten

_HALVES: Final = frozenset({torch.float16, torch.bfloat16})


def _log_softmax(b: Builder, node: Node) -> Node | None:
    """The kernel does not support float64, and returns 0 for any 0-d tensor."""
    a = bind(node)
    x, dim = a["self"], a["dim"]
    if not shape_of(x):
        return b.call(aten.sub.Tensor, x, x, val=node.meta["val"])
    if dtype_of(x) is not torch.float64 or dtype_of(node) is not torch.float64:
        return None
    shifted = b.call(aten.sub.Tensor, x, b.call(aten.amax.default, x, [dim], True))
    total = b.call(aten.sum.dim_IntList, b.call(aten.exp.default, shifted), [dim], True)
    return b.call(aten.sub.Tensor, shifted, b.call(aten.log.default, total), val=node.meta["val"])


def _var_mean(b: Builder, node: Node) -> list[Node] | None:
    """The kernel returns NaN for the mean of one element."""
    a = bind(node)
    x, keepdim = a["self"], a["keepdim"]
    rank = len(shape_of(x))
    dims = [dim % rank for dim in a["dim"] or range(rank)] if rank else []
    # a dynamic size may be 1
    if math.prod(size for dim in dims if isinstance(size := shape_of(x)[dim], int)) > 1:
        return None
    variance = b.call(aten.var.correction, x, dims, correction=a["correction"], keepdim=keepdim)
    return [variance, b.call(aten.mean.dim, x, dims, keepdim)]


def _floor_divide(b: Builder, node: Node) -> Node | None:
    """The kernel returns infinity for 0 / 0, and for NaN / 0."""
    x, y = node.args
    if not _may_divide_by_zero(b, node):
        return None
    if not isinstance(y, Node):
        return b.call(aten.div.Scalar, x, y, val=node.meta["val"])
    return _unrounded_by_zero(b, node, b.call(aten.floor_divide.default, x, y))


def _rounded_quotient(b: Builder, node: Node) -> Node | None:
    """The kernel truncates 16-bit quotients without rounding them before; and see `_floor_divide`."""
    x, y = node.args
    mode = node.kwargs["rounding_mode"]
    if mode == "trunc" and all(isinstance(z, Node) and dtype_of(z) in _HALVES for z in (x, y)):
        return b.call(aten.trunc.default, b.call(aten.div.Tensor, x, y), val=node.meta["val"])
    if mode != "floor" or not _may_divide_by_zero(b, node):
        return None
    if not isinstance(y, Node):
        return b.call(aten.div.Scalar, x, y, val=node.meta["val"])
    return _unrounded_by_zero(b, node, b.call(aten.div.Tensor_mode, x, y, rounding_mode=mode))


def _may_divide_by_zero(b: Builder, node: Node) -> bool:
    """Whether floating point numbers are divided by zeros, and the results are not replaced yet."""
    divisor = b.facts.of(node.args[1])
    if not dtype_of(node).is_floating_point or divisor.low > 0 or divisor.high < 0:
        return False
    return not any(
        user.target is aten.where.self and user.args[2] is node and _is_zero_of(user.args[0], node.args[1])
        for user in node.users
    )


def _is_zero_of(mask: Any, divisor: Any) -> bool:
    return mask.target is aten.eq.Scalar and mask.args == (divisor, 0)


def _unrounded_by_zero(b: Builder, node: Node, quotient: Node) -> Node:
    """Returns the quotient, with the results of a division by zero, which rounding does not change."""
    x, y = node.args
    is_zero = b.call(aten.eq.Scalar, y, 0)
    return b.call(aten.where.self, is_zero, b.call(aten.div.Tensor, x, y), quotient, val=node.meta["val"])


def _exact_quotient(b: Builder, node: Node) -> Node | None:
    """The kernel multiplies by the reciprocal of a number: the last bit of a quotient may be another one."""
    x, y = bind(node).values()
    if isinstance(y, Node) or abs(math.frexp(y)[0]) in (0.5, 0.0):
        return None
    if not dtype_of(x) is dtype_of(node) is torch.float32 or not _is_rounded(node):
        return None
    quotient = b.call(aten.div.Scalar, b.call(aten._to_copy.default, x, dtype=torch.float64), y)
    return b.call(aten._to_copy.default, quotient, dtype=torch.float32, val=node.meta["val"])


def _is_rounded(node: Node) -> bool:
    """Whether a result is rounded to a whole number later, as in quantization, where its last bit counts."""
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
    aten.floor_divide.default: _floor_divide,
    aten.var_mean.correction: _var_mean,
}
