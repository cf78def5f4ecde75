# SPDX-License-Identifier: Apache-2.0
"""Clamp and where.

Floats are clamped by HardTanh, which compares and selects, so that NaN is kept: the runtime's Clamp replaces
it by a bound (github.com/pytorch/pytorch/pull/121381), and is used for integers.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import HardTanhT, Operation, TernaryT
from torch.fx import Node

from delegatec.backends.common.constants import FLOAT16_MAX, kept_from_zero
from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import NUMBERS
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, exact_number
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
        low = min(low, high)  # In ATen the upper bound has precedence.
    x.clamp(low, high).bind(node)


def _hardtanh(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    _bounded(operand(b, bound["self"]), bound["min_val"], bound["max_val"]).bind(node)


def _bounded(x: Expression, low: float | None, high: float | None) -> Expression:
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if math.isnan(low) or math.isnan(high):
        return x * math.nan
    limits = [_in_range(x, limit) for limit in (min(low, high), high)]
    out = x.builder.temporary(x.shape, x.dtype)
    x.builder.emit(Operation.HardTanh, HardTanhT(x.id, out, *limits))
    return Expression(x.builder, out)


def _in_range(x: Expression, limit: float) -> float:
    """Returns a bound that is neither infinite nor zero in float16."""
    if not x.builder.is_halved(x.dtype) or math.isinf(limit):
        return limit
    return kept_from_zero(max(-FLOAT16_MAX, min(limit, FLOAT16_MAX)))


def _where(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    condition = b.operand(bound["condition"], torch.bool)
    first, second = (b.operand(bound[name], dtype_of(node)) for name in ("self", "other"))
    table = TernaryT(input1Id=condition, input2Id=first, input3Id=second, outputId=b.result(node))
    b.emit(Operation.Where, table)


_NUMBERS: Final = result_dtypes(NUMBERS, "MPSGraph does not order bools.", "convert to int32")

ROWS: Final = (
    OperatorRow(
        overload("clamp"),
        _clamp,
        (_NUMBERS, exact_number("min"), exact_number("max")),
        note="HardTanh for floats, which keeps NaN",
    ),
    OperatorRow(overload("hardtanh"), _hardtanh, (FLOAT_OPERANDS,)),
    OperatorRow(overload("where.self"), _where),
)
