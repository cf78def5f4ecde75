# SPDX-License-Identifier: Apache-2.0
"""Shifts by any distance: beyond the bit width, the sign or zeros are left."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.arm.dialect import TOSA
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_UNIT: Final = [1 << 30], [30]


def _shifted(target: Any, x: Value, distance: Value) -> Value:
    return Value(x.builder, x.builder.call(target, x.node, distance.node))


def _selected(is_left: bool) -> Rule:
    """Returns a rule that compares the distance with the bit width."""

    def rule(builder: Builder, node: Node) -> Node:
        first, second = bind(node).values()
        dtype = dtype_of(node)
        x, by = (value_of(builder, each, dtype) for each in (first, second))
        bits = _bits(dtype)
        is_inside = by.ge(0) & by.lt(bits)
        distance = is_inside.where(by, 0 if is_left else bits - 1).within(0, bits - 1)
        if is_left:
            return is_inside.where(_shifted(aten.bitwise_left_shift.Tensor, x, distance), 0).node
        return _shifted(aten.bitwise_right_shift.Tensor, x, distance).node

    return rule


def _computed(is_left: bool) -> Rule:
    """Returns a rule that needs no comparison, in int32: for Ethos-U55 and U65."""

    def rule(builder: Builder, node: Node) -> Node:
        first, second = bind(node).values()
        dtype = dtype_of(node)
        bits = _bits(dtype)
        x, by = (value_of(builder, each, dtype).to(torch.int32) for each in (first, second))
        by = by.clamp(-1, bits)
        if is_left:
            is_inside = _at_most_one(by + 1) * _at_most_one(bits - by)
            found = _shifted(aten.bitwise_left_shift.Tensor, x, by.clamp(0, bits - 1)) * is_inside
            if bits < 32:
                # The low bits, of which the highest is the sign.
                found = _shifted(aten.bitwise_left_shift.Tensor, found, found.scalar(32 - bits))
                found = _shifted(aten.bitwise_right_shift.Tensor, found, found.scalar(32 - bits))
        else:
            distance = by.maximum(by * (1 - bits)).clamp(0, bits - 1)
            found = _shifted(aten.bitwise_right_shift.Tensor, x, distance)
        if bits == 32:
            return found.to(dtype).node
        args = (*_UNIT, 0, 0, -1, False, "single", dtype)
        return builder.call(TOSA.rescale.default, found.node, *args, val=builder.empty(found.shape, dtype))

    return rule


def _at_most_one(x: Value) -> Value:
    return x.clamp(0, 1)


def _bits(dtype: torch.dtype) -> int:
    return 8 * min(4, dtype.itemsize)


REWRITES: Final = tuple(
    Rewrite(getattr(getattr(aten, f"bitwise_{name}_shift"), kind), rule(name == "left"))
    for rule in (_selected, _computed)
    for name in ("left", "right")
    for kind in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
)
