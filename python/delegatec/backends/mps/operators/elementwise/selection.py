# SPDX-License-Identifier: Apache-2.0
"""Clamp, relu and where.

Floats are clamped by HardTanh, which compares and selects, so that NaN is kept: the runtime's Clamp and Relu
replace it by a bound (github.com/pytorch/pytorch/pull/121381). Clamp is used for integers.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import BoundsT, HardTanhT, Operation, TernaryT, UnaryT
from torch.fx import Node

from delegatec.backends.common.constants import FLOAT16_MAX, nonzero_in_float16
from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.dtypes import NUMERIC
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, exact_scalar
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import result_dtypes


def _clamp(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    low, high = bound["min"], bound["max"]
    if dtype.is_floating_point:
        _bounded(b, node, low, high)
        return
    if low is not None and high is not None:
        low = min(low, high)  # In ATen the upper bound has precedence.
    ends = ((low, -math.inf), (high, math.inf))
    bounds = BoundsT(*(end if limit is None else float(limit) for limit, end in ends))
    b.emit(Operation.Clamp, UnaryT(b.operand(bound["self"], dtype), b.result(node)), bounds)


def _hardtanh(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    _bounded(b, node, bound["min_val"], bound["max_val"])


def _relu(b: GraphBuilder, node: Node) -> None:
    _bounded(b, node, 0.0, None)


def _bounded(b: GraphBuilder, node: Node, low: float | None, high: float | None) -> None:
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    dtype = dtype_of(node)
    limits = [_in_range(limit) if b.is_halved(dtype) else limit for limit in (min(low, high), high)]
    x = b.operand(bind(node)["self"], dtype)
    b.emit(Operation.HardTanh, HardTanhT(x, b.result(node), *limits))


def _in_range(limit: float) -> float:
    """Returns a bound that is neither infinite nor zero in float16."""
    return limit if math.isinf(limit) else nonzero_in_float16(max(-FLOAT16_MAX, min(limit, FLOAT16_MAX)))


def _where(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    condition = b.operand(bound["condition"], torch.bool)
    first, second = (b.operand(bound[name], dtype_of(node)) for name in ("self", "other"))
    table = TernaryT(input1Id=condition, input2Id=first, input3Id=second, outputId=b.result(node))
    b.emit(Operation.Where, table)


def _nan_bounds(node: Node, _: object) -> str | None:
    _, low, high = bind(node).values()
    return "a bound is NaN" if any(bound is not None and math.isnan(bound) for bound in (low, high)) else None


_NUMERIC_RESULT: Final = result_dtypes(NUMERIC, "MPSGraph does not order bools.", "convert to int32")
_NO_NAN: Final = Constraint(
    "argument", "Bounds are not NaN: HardTanh does not document its result.", _nan_bounds
)

ROWS: Final = (
    OperatorRow(
        overload("clamp"),
        _clamp,
        (_NUMERIC_RESULT, exact_scalar("min"), exact_scalar("max"), _NO_NAN),
        note="HardTanh for floats, which keeps NaN",
    ),
    OperatorRow(overload("relu"), _relu, (FLOAT_OPERANDS,), note="HardTanh, which keeps NaN"),
    OperatorRow(overload("hardtanh"), _hardtanh, (FLOAT_OPERANDS, _NO_NAN)),
    OperatorRow(overload("where.self"), _where),
)
