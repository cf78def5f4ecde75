# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor."""

from __future__ import annotations

from typing import Final

from delegatec_schemas.mps_graph import UnaryT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import FLOATS, NUMBERS
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of


def unary(operation: int) -> Lower:
    """Returns the lowering of f(self), computed in the dtype of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        source = b.operand(bind(node)["self"], dtype_of(node))
        b.emit(operation, UnaryT(input1Id=source, outputId=b.result(node)))

    return lower


def unpromoted(operation: int) -> Lower:
    """Returns the lowering of f(self), computed in the dtype of the operand."""

    def lower(b: GraphBuilder, node: Node) -> None:
        b.emit(operation, UnaryT(input1Id=b.of(bind(node)["self"]), outputId=b.result(node)))

    return lower


def _round(b: GraphBuilder, node: Node) -> None:
    """Rounds ties to even, independent of Round's ties: half of an odd integer is not an integer."""
    x = operand(b, bind(node)["self"])
    nearest = x.rounded()
    is_half = (x - nearest).abs().eq(0.5)
    is_half.where((x * 0.5).rounded() * 2.0, nearest).bind(node)


_FLOAT_FUNCTIONS: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2"),
    *("log", "log10", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"
)
_NUMBER_RESULT: Final = result_dtypes(
    NUMBERS, "MPSGraph does not have arithmetic on bools.", "convert to int32"
)
# pytorch/pytorch pull request 86615
_EXACT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph's function is not exact for all integers, or does not support int64."
)

ROWS: Final = (
    *family({name: name.capitalize() for name in _FLOAT_FUNCTIONS}, unary, _FLOAT_RESULT),
    *family({"neg": "Neg"}, unary, _NUMBER_RESULT),
    *family({"abs": "Abs", "ceil": "Ceil", "floor": "Floor"}, unary, _EXACT_RESULT),
    *family({"sign": "Sign"}, unary, _EXACT_RESULT, note="zero for NaN in ATen and in Metal"),
    OperatorRow(
        overload("round"),
        _round,
        (_EXACT_RESULT,),
        note="rounds ties to even, independent of MPSGraph",
    ),
    *family({"isinf": "Isinf", "isnan": "Isnan"}, unpromoted, FLOAT_OPERANDS),
)
