# SPDX-License-Identifier: Apache-2.0
"""Shifts by distances below the bit width."""

from __future__ import annotations

from typing import Any, Final

from delegatec_schemas.tosa_graph import DType, NanMode
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.capabilities.families import SMALL_FAMILIES
from delegatec.backends.arm.dtypes import INTEGERS, TO_TOSA
from delegatec.backends.arm.operators.conversion import converted
from delegatec.backends.arm.operators.row import KnownConstraint, operand, operator_row
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of

_LOWEST: Final = -(1 << 31)


def _operands(node: Node) -> tuple[Any, Any]:
    first, second, *_ = bind(node).values()
    return first, second


def _left(b: GraphBuilder, node: Node) -> None:
    b.result(node, "LOGICAL_LEFT_SHIFT", *(operand(b, each, node) for each in _operands(node)))


def _right(b: GraphBuilder, node: Node) -> None:
    if not b.settings.specification.integer:
        _right_by_logical(b, node)
        return
    x, by = (operand(b, each, node) for each in _operands(node))
    is_wide = TO_TOSA[dtype_of(node)] == DType.INT32
    # The right shift of these families rounds, and operates on INT32.
    rounds = is_wide and b.settings.specification.mark in SMALL_FAMILIES
    if rounds:
        x = _without_half(b, x, by, node)
    b.result(node, "ARITHMETIC_RIGHT_SHIFT", x, by, round=rounds)


def _without_half(b: GraphBuilder, x: Value, by: Value, node: Node) -> Value:
    """Returns x minus the addend of a rounding shift, so that it rounds down.

    Values less than `half` above the lowest have the same quotient as the lowest, and would overflow.
    """
    rank = len(shape_of(node))
    if by.elements is not None:
        (value,) = by.elements
        half = b.scalar(1 << value >> 1, DType.INT32, rank)
        least = b.scalar(_LOWEST + (1 << value >> 1), DType.INT32, rank)
    else:
        # 2**(by - 1), or 0 if `by` is 0; none of the intermediate results has more than 31 bits.
        zero, one = (b.scalar(each, DType.INT32, rank) for each in (0, 1))
        less = b.emit("SUB", by, one, shape=by.shape)
        less_or_zero = b.emit("MAXIMUM", less, zero, shape=by.shape, nan_mode=NanMode.PROPAGATE)
        power = b.emit("LOGICAL_LEFT_SHIFT", one, less_or_zero, shape=by.shape)
        half = b.emit("ADD", power, b.emit("SUB", less, less_or_zero, shape=by.shape), shape=by.shape)
        least = b.emit("ADD", half, b.scalar(_LOWEST, DType.INT32, rank), shape=by.shape)
    x = b.emit("MAXIMUM", x, least, shape=shape_of(node), nan_mode=NanMode.PROPAGATE)
    return b.emit("SUB", x, half, shape=shape_of(node))


def _right_by_logical(b: GraphBuilder, node: Node) -> None:
    """Shifts without the profile INT: -1 - x for a negative x, and back. Sums must not overflow."""
    x, by = (operand(b, each, node, DType.INT32) for each in _operands(node))
    shape = shape_of(node)
    one, last = (b.scalar(value, DType.INT32, len(shape)) for value in (1, 31))
    is_negative = b.emit("LOGICAL_RIGHT_SHIFT", x, last, shape=x.shape)
    double = b.emit("ADD", is_negative, is_negative, shape=x.shape)
    sign = b.emit("SUB", one, double, shape=x.shape)
    zero = b.scalar(0, DType.INT8)
    positive = b.emit("MUL", b.emit("ADD", x, is_negative, shape=x.shape), sign, zero, shape=x.shape)
    shifted = b.emit("LOGICAL_RIGHT_SHIFT", positive, by, shape=shape)
    found = b.emit("SUB", b.emit("MUL", shifted, sign, zero, shape=shape), is_negative, shape=shape)
    b.alias(node, converted(b, found, TO_TOSA[dtype_of(node)]))


def _distance(node: Node, facts: Facts) -> str | None:
    by, bits = facts.of(_operands(node)[1]), 8 * min(4, dtype_of(node).itemsize)
    return None if by.low >= 0 and by.high < bits else f"a shift by {by.low} to {by.high}"


_SHIFT: Final = KnownConstraint("argument", "A shift is less than the number of bits.", _distance)

ROWS: Final = tuple(
    operator_row(f"bitwise_{name}_shift.{kind}", lower, INTEGERS, known=(_SHIFT,))
    for name, lower in (("left", _left), ("right", _right))
    for kind in ("Tensor", "Tensor_Scalar")
)
