# SPDX-License-Identifier: Apache-2.0
"""Shifts by distances that are negative, or beyond the bits of the dtype.

Eager mode shifts all bits out, and keeps the sign to the right. The kernels leave it to the processor, which
takes a distance of 64 for 0, as measured with the stock runtime 1.4.1.
"""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rule, RuleTable
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten


def _shift(is_left: bool) -> Rule:
    """Returns a rule that compares the distance with the bits, unless its range is known."""
    target = aten.bitwise_left_shift.Tensor if is_left else aten.bitwise_right_shift.Tensor

    def rule(b: Builder, node: Node) -> Node | None:
        first, second = bind(node).values()
        dtype = dtype_of(node)
        bits = dtype.itemsize * 8
        is_within = _is_within(b, second, bits)
        if is_within and isinstance(first, Node):
            return None
        x = value_of(b, first, dtype) if isinstance(first, Node) else full(b, [], first, dtype)
        if is_within:
            return b.call(target, x.node, second, val=node.meta["val"])
        by = value_of(b, second, dtype) if isinstance(second, Node) else full(b, [], -1, dtype)
        keeps_sign = not is_left and dtype.is_signed
        is_inside = by.ge(0) & by.lt(bits)
        distance = is_inside.where(by, bits - 1 if keeps_sign else 0)
        shifted = b.call(target, x.node, distance.node, val=node.meta["val"])
        return shifted if keeps_sign else is_inside.where(Value(b, shifted), 0).node

    return rule


def _is_within(b: Builder, distance: Node | int, bits: int) -> bool:
    if not isinstance(distance, Node):
        return 0 <= distance < bits
    found = b.facts.of(distance)
    return found.low >= 0 and found.high < bits


RULES: RuleTable = {
    target: _shift(packet is aten.bitwise_left_shift)
    for packet in (aten.bitwise_left_shift, aten.bitwise_right_shift)
    for target in (packet.Tensor, packet.Tensor_Scalar, packet.Scalar_Tensor)
}
