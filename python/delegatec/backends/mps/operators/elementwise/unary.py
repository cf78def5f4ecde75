# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation, UnaryT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import binary, where
from delegatec.backends.mps.building.operations import unary as apply
from delegatec.backends.mps.dtypes import FLOATS, NUMERIC
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import result_dtypes


def unary(operation: int, dtype: Callable[[Node], torch.dtype] = dtype_of) -> Lower:
    """Returns the lowering of a function; `dtype` is that of its operand, by default of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        source = b.operand(bind(node)["self"], dtype(node))
        b.emit(operation, UnaryT(input1Id=source, outputId=b.result(node)))

    return lower


def _test(operation: int) -> Lower:
    """Returns the lowering of a function from floats to bool."""
    return unary(operation, lambda node: dtype_of(bind(node)["self"]))


def _round(b: GraphBuilder, node: Node) -> None:
    """Rounds ties to even, independent of Round's ties: half of an odd integer is not an integer."""
    x = b.of(bind(node)["self"])
    nearest = apply(b, Operation.Round, x)
    distance = apply(b, Operation.Abs, binary(b, Operation.Sub, x, nearest))
    half = apply(b, Operation.Round, binary(b, Operation.Mul, x, 0.5))
    even = binary(b, Operation.Mul, half, 2.0)
    b.alias(node, where(b, binary(b, Operation.Eq, distance, 0.5), even, nearest))


_FLOAT_FUNCTIONS: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2"),
    *("log", "log10", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"
)
_NUMERIC_RESULT: Final = result_dtypes(NUMERIC, "MPSGraph does not compute bools.", "convert to int32")
# pytorch/pytorch pull request 86615
_EXACT_RESULT: Final = result_dtypes(FLOATS, "MPSGraph's is inexact for integers, or lacks int64.")

ROWS: Final = (
    *family({name: name.capitalize() for name in _FLOAT_FUNCTIONS}, unary, _FLOAT_RESULT),
    *family({"neg": "Neg"}, unary, _NUMERIC_RESULT),
    *family({"abs": "Abs", "ceil": "Ceil", "floor": "Floor"}, unary, _EXACT_RESULT),
    *family({"sign": "Sign"}, unary, _EXACT_RESULT, note="zero for NaN in ATen and in Metal"),
    OperatorRow(
        overload("round"),
        _round,
        (_EXACT_RESULT,),
        note="rounds ties to even, independent of MPSGraph",
    ),
    *family({"isinf": "Isinf", "isnan": "Isnan"}, _test, FLOAT_OPERANDS),
)
