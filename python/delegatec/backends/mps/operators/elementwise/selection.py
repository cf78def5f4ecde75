# SPDX-License-Identifier: Apache-2.0
"""Clamping and choosing.

Floats are clamped by HardTanh, which compares and chooses, so that NaN stays: the runtime's Clamp makes it a
bound (github.com/pytorch/pytorch/pull/121381), and is for integers.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation, TernaryT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import NUMBERS
from delegatec.backends.mps.operators.elementwise.elementary import bounded, maximum, minimum, number
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import EXACT_FLOAT32, FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of


def _clamp(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    x, low, high = operand(b, bound["self"], dtype), bound["min"], bound["max"]
    if dtype.is_floating_point:
        _bounded(x, low, high).bind(node)
        return
    if low is not None and high is not None:
        low = min(low, high)  # ATen's upper bound goes first.
    if any(limit is not None and abs(limit) > EXACT_FLOAT32 for limit in (low, high)):
        if low is not None:
            x = maximum(x, number(x, low))
        if high is not None:
            x = minimum(x, number(x, high))
        x.bind(node)
        return
    x.clamp(low, high).bind(node)


def _bounded(x: Expression, low: float | None, high: float | None) -> Expression:
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if math.isnan(low) or math.isnan(high):
        return x * math.nan
    return bounded(x, min(low, high), high)


def _clamp_tensor(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    x = operand(b, bound["self"], dtype)
    if bound["min"] is not None:
        x = maximum(x, operand(b, bound["min"], dtype))
    if bound["max"] is not None:
        x = minimum(x, operand(b, bound["max"], dtype))
    x.bind(node)


def _hardtanh(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    _bounded(operand(b, bound["self"]), bound["min_val"], bound["max_val"]).bind(node)


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


_NUMBERS: Final = result_dtypes(NUMBERS, "MPSGraph has no order on bool.", "convert to int32")

ROWS: Final = (
    OperatorRow(
        overload("clamp"),
        ("HardTanh", "Clamp", "Gt", "Where", "Minimum", "Mul"),
        _clamp,
        (_NUMBERS,),
        note="of floats HardTanh, which keeps NaN",
    ),
    OperatorRow(
        overload("clamp.Tensor"),
        ("Gt", "Lt", "Isnan", "BitwiseOr", "Where", "Minimum"),
        _clamp_tensor,
        (_NUMBERS,),
    ),
    OperatorRow(overload("hardtanh"), ("HardTanh", "Mul"), _hardtanh, (FLOAT_OPERANDS,)),
    OperatorRow(overload("where.self"), ("Where",), _where),
    OperatorRow(overload("masked_fill.Scalar"), ("Where",), _masked_fill),
)
