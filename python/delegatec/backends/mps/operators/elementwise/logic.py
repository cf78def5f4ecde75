# SPDX-License-Identifier: Apache-2.0
"""Comparisons, logic, and operations on bits."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import BinaryT, Operation, UnaryT
from torch.fx import Node

from delegatec.backends.common.row import overload, variants
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import constant, full, operand
from delegatec.backends.mps.dtypes import INTEGERS
from delegatec.backends.mps.operators.elementwise.binary import arithmetic, operands_of
from delegatec.backends.mps.operators.elementwise.elementary import number
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes
from delegatec.edge.nodes import dtype_of, promoted, shape_of


def comparison(operation: int) -> Lower:
    """output = self op other, compared in the dtype that torch promotes to; bools as int32."""

    def lower(b: GraphBuilder, node: Node) -> None:
        operands = operands_of(node)
        dtype = promoted(operands)
        dtype = torch.int32 if dtype == torch.bool else dtype
        first, second = (b.operand(o, dtype) for o in operands)
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def logical(operation: int) -> Lower:
    """output = self op other, on whether they are not zero."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(o, torch.bool) for o in operands_of(node))
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def _bitwise_not(b: GraphBuilder, node: Node) -> None:
    table = UnaryT(input1Id=b.of(bind(node)["self"]), outputId=b.result(node))
    b.emit(Operation.BitwiseNot, table)


def _logical_not(b: GraphBuilder, node: Node) -> None:
    source = b.operand(bind(node)["self"], torch.bool)
    b.emit(Operation.LogicalNot, UnaryT(input1Id=source, outputId=b.result(node)))


# ---- shifts ----------------------------------------------------------------------------------------------


def _left_shift(b: GraphBuilder, node: Node) -> None:
    x, by = _shift_operands(b, node)
    if isinstance(by, int):
        bits = x.dtype.itemsize * 8
        if 0 <= by < bits:
            result = x * (1 << by if by < bits - 1 else -(1 << by))  # The highest bit is the sign.
        else:
            result = full(b, shape_of(node), 0, x.dtype)
    else:
        result = x * _power_of_two(by, x.dtype)
    result.bind(node)


def _right_shift(b: GraphBuilder, node: Node) -> None:
    x, by = _shift_operands(b, node)
    bits = x.dtype.itemsize * 8
    if isinstance(by, int):
        by = by if 0 <= by < bits else bits - 1
        if by < bits - 1:
            # What the mask leaves divides without a rest: no rounding has to be known.
            result = (x - (x & ((1 << by) - 1))) / (1 << by)
        else:
            result = x.compare(Operation.Lt, 0).where(number(x, -1), number(x, 0))
    else:
        # The highest power is negative: beyond it there is only the sign.
        power = _power_of_two(by, x.dtype)
        sign = x.compare(Operation.Lt, 0).where(number(x, -1), number(x, 0))
        shifted = (x - (x & (power - 1))) / power.compare(Operation.Gt, 0).where(power, number(x, 1))
        result = power.compare(Operation.Gt, 0).where(shifted, sign)
    result.view(*shape_of(node)).bind(node)


def _shift_operands(b: GraphBuilder, node: Node) -> tuple[Expression, Expression | int]:
    first, second = operands_of(node)
    dtype = dtype_of(node)
    return operand(b, first, dtype), second if isinstance(second, int) else operand(b, second, dtype)


def _power_of_two(exponent: Expression, dtype: torch.dtype) -> Expression:
    """2 to the power of integers, from a table; zero for those that are no position of a bit."""
    bits = dtype.itemsize * 8
    b = exponent.builder
    table = torch.tensor([1 << bit for bit in range(bits - 1)] + [-(1 << bits - 1), 0], dtype=dtype)
    entry = b.once(("powers of two", dtype), lambda: constant(b, table, "powers of two").id)
    is_bit = exponent.compare(Operation.Ge, 0) & exponent.compare(Operation.Lt, bits)
    place = is_bit.where(exponent, number(exponent, bits)).to(torch.int32)
    size = max(1, torch.Size(exponent.shape).numel())
    return Expression(b, entry).index_select(0, place.view(size)).view(*exponent.shape)


_BITS_RESULT: Final = result_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_BITS: Final = operand_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_INTEGERS: Final = result_dtypes(INTEGERS, "it works on bits.")
_COMPARISONS: Final = {name: name.capitalize() for name in ("eq", "ge", "gt", "le", "lt", "ne")}
_BITWISE: Final = {f"bitwise_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}
_LOGICAL: Final = {f"logical_{name}": f"Bitwise{name.capitalize()}" for name in ("and", "or", "xor")}

ROWS: Final = (
    *family(variants(_COMPARISONS, "Tensor", "Scalar"), comparison),
    *family(variants(_BITWISE, "Tensor", "Scalar"), arithmetic, _BITS_RESULT),
    *family(_LOGICAL, logical, note="numbers become bool by comparison with zero"),
    OperatorRow(overload("bitwise_not"), ("BitwiseNot",), _bitwise_not, (_BITS,)),
    OperatorRow(
        overload("logical_not"),
        ("LogicalNot", "Ne"),
        _logical_not,
        note="a number becomes bool by comparison with zero",
    ),
    *(
        OperatorRow(
            overload(name),
            ("Mul", "Full", "Ge", "Lt", "BitwiseAnd", "Where", "IndexSelect", "View"),
            _left_shift,
            (_INTEGERS,),
            note="times a power of two",
        )
        for name in variants({"bitwise_left_shift": ""}, "Tensor", "Tensor_Scalar", "Scalar_Tensor")
    ),
    *(
        OperatorRow(
            overload(name),
            ("BitwiseAnd", "Sub", "Div", "Ge", "Gt", "Lt", "Where", "IndexSelect", "View"),
            _right_shift,
            (_INTEGERS,),
            note="what is a multiple of a power of two, divided by it",
        )
        for name in variants({"bitwise_right_shift": ""}, "Tensor", "Tensor_Scalar", "Scalar_Tensor")
    ),
)
