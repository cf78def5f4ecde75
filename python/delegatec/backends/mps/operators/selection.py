# SPDX-License-Identifier: Apache-2.0
"""Clamping and choosing."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import BoundsT, HardTanhT, Operation, TernaryT, UnaryT
from torch.fx import Node

from delegatec.backends.mps.dtypes import NUMBERS
from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of
from delegatec.backends.mps.operators.family import overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, exact_number, result_dtypes
from delegatec.edge.arguments import bind

_INFINITY: Final = float("inf")


def _clamp(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    low = -_INFINITY if bound["min"] is None else b.number(bound["min"], dtype)
    high = _INFINITY if bound["max"] is None else b.number(bound["max"], dtype)
    operand = b.operand(bound["self"], dtype)
    if low == -_INFINITY and high == _INFINITY:
        b.alias(node, operand)  # The runtime leaves the result undefined.
        return
    table = UnaryT(input1Id=operand, outputId=b.result(node))
    b.emit(Operation.Clamp, table, BoundsT(minValue=low, maxValue=high))


def _hardtanh(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    low, high = (b.number(bound[name], dtype) for name in ("min_val", "max_val"))
    operand = b.operand(bound["self"], dtype)
    table = HardTanhT(input1Id=operand, outputId=b.result(node), minValue=low, maxValue=high)
    b.emit(Operation.HardTanh, table)


def _where(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    condition = b.operand(bound["condition"], torch.bool)
    first, second = (b.operand(bound[name], dtype_of(node)) for name in ("self", "other"))
    table = TernaryT(input1Id=condition, input2Id=first, input3Id=second, outputId=b.result(node))
    b.emit(Operation.Where, table)


def _masked_fill(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    table = TernaryT(
        input1Id=b.operand(bound["mask"], torch.bool),
        input2Id=b.operand(bound["value"], dtype),
        input3Id=b.operand(bound["self"], dtype),
        outputId=b.result(node),
    )
    b.emit(Operation.Where, table)


ROWS: Final = (
    OperatorRow(
        overload("clamp"),
        ("Clamp",),
        _clamp,
        (
            result_dtypes(NUMBERS, "MPSGraph has no order on bool.", "convert to int32"),
            exact_number("min"),
            exact_number("max"),
        ),
    ),
    OperatorRow(overload("hardtanh"), ("HardTanh",), _hardtanh, (FLOAT_OPERANDS,)),
    OperatorRow(overload("where.self"), ("Where",), _where),
    OperatorRow(overload("masked_fill.Scalar"), ("Where",), _masked_fill),
)
