# SPDX-License-Identifier: Apache-2.0
"""Shifts, for targets that lack them."""

from __future__ import annotations

from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.pointwise import INTEGERS
from delegatec.edge.legalize.value import Value, full, table, value_of

aten = torch.ops.aten


def _renamed(target: OpOverload) -> Rule:
    """Returns a rule that replaces an operator by its core name."""

    def rule(b: Builder, node: Node) -> Node:
        return b.call(target, *node.args, val=node.meta["val"], **node.kwargs)

    return rule


def _left(builder: Builder, node: Node) -> Node:
    x, by = _operands(builder, node)
    if isinstance(by, Value):
        return (x * _power_of_two(by)).node
    bits = x.dtype.itemsize * 8
    if not 0 <= by < bits:
        return full(builder, shape_of(node), 0, x.dtype).node
    return (x * (1 << by if by < bits - 1 else -(1 << by))).node  # The highest bit is the sign.


def _right(builder: Builder, node: Node) -> Node:
    """Clears the low bits, so that the division is exact."""
    x, by = _operands(builder, node)
    sign = x.lt(0).where(x.scalar(-1), 0)
    bits = x.dtype.itemsize * 8
    if not isinstance(by, Value):
        if not 0 <= by < bits - 1:
            return sign.node
        return (x - (x & ((1 << by) - 1))).truncated_quotient(1 << by).node
    # The highest power is negative: from there on only the sign is left.
    power = _power_of_two(by)
    is_positive = power.gt(0)
    shifted = (x - (x & (power - 1))).truncated_quotient(is_positive.where(power, 1))
    return is_positive.where(shifted, sign).node


def _operands(builder: Builder, node: Node) -> tuple[Value, Value | int]:
    first, second = bind(node).values()
    dtype = dtype_of(node)
    return value_of(builder, first, dtype), value_of(builder, second, dtype) if isinstance(
        second, Node
    ) else second


def _power_of_two(exponent: Value) -> Value:
    """Returns 2 to the power of integers, from a table of float32; zero if that is not a bit."""
    bits = exponent.dtype.itemsize * 8
    powers = torch.tensor([*(2.0**bit for bit in range(bits - 1)), -(2.0 ** (bits - 1)), 0.0])
    index = (exponent & -bits).eq(0).where(exponent, bits)
    if bits < 32:  # Positions are int32 or int64.
        index = index.to(torch.int32)
    found = table(exponent.builder, powers).index_select(0, index.view(index.numel))
    return found.view(*index.shape).to(exponent.dtype)


_INTEGERS: Final = result_dtypes(INTEGERS, "it is a bitwise operation.")

RULES: RuleTable = {
    aten.__and__.Tensor: _renamed(aten.bitwise_and.Tensor),
    aten.__or__.Tensor: _renamed(aten.bitwise_or.Tensor),
    aten.__xor__.Tensor: _renamed(aten.bitwise_xor.Tensor),
    aten.__lshift__.Scalar: _renamed(aten.bitwise_left_shift.Tensor_Scalar),
    aten.__lshift__.Tensor: _renamed(aten.bitwise_left_shift.Tensor),
    aten.__rshift__.Scalar: _renamed(aten.bitwise_right_shift.Tensor_Scalar),
    aten.__rshift__.Tensor: _renamed(aten.bitwise_right_shift.Tensor),
}

_LEFT: Final = (
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.bitwise_left_shift.Scalar_Tensor,
)
_RIGHT: Final = (
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.bitwise_right_shift.Scalar_Tensor,
)


REWRITES: Final = (
    *(Rewrite(target, _left, (_INTEGERS,), note="by multiplication with a power of two") for target in _LEFT),
    *(
        Rewrite(target, _right, (_INTEGERS,), note="by clearing the low bits and dividing by a power of two")
        for target in _RIGHT
    ),
)
