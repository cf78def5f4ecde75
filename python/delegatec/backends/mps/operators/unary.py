# SPDX-License-Identifier: Apache-2.0
"""Functions of one tensor, element by element."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import BinaryT, Operation, UnaryT
from torch.fx import Node

from delegatec.backends.mps.dtypes import FLOATS, INTEGERS, NUMBERS
from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of
from delegatec.backends.mps.operators.family import Lower, family, overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, operand_dtypes, result_dtypes
from delegatec.edge.arguments import bind


def unary(operation: int) -> Lower:
    """output = f(self), computed in the dtype of the result; in that of the operand if the result is bool."""

    def lower(b: GraphBuilder, node: Node) -> None:
        source = bind(node)["self"]
        dtype = dtype_of(source) if dtype_of(node) == torch.bool else dtype_of(node)
        operand = b.operand(source, dtype)
        b.emit(operation, UnaryT(input1Id=operand, outputId=b.result(node)))

    return lower


def _relu(b: GraphBuilder, node: Node) -> None:
    # The format gives Relu a second operand, which the runtime does not read.
    table = BinaryT(input1Id=b.of(bind(node)["self"]), outputId=b.result(node))
    b.emit(Operation.Relu, table)


def _logical_not(b: GraphBuilder, node: Node) -> None:
    operand = b.operand(bind(node)["self"], torch.bool)
    b.emit(Operation.LogicalNot, UnaryT(input1Id=operand, outputId=b.result(node)))


_FLOAT_FUNCTIONS: Final = (
    *(
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "ceil",
        "cos",
        "cosh",
        "erf",
        "exp",
        "exp2",
        "floor",
    ),
    *("log", "log10", "log2", "reciprocal", "sigmoid", "sin", "sinh", "tan", "tanh"),
)
_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"
)
_NUMBER_RESULT: Final = result_dtypes(NUMBERS, "MPSGraph has no arithmetic on bool.", "convert to int32")
_BITS: Final = operand_dtypes(INTEGERS | {torch.bool}, "it works on bits.")

ROWS: Final = (
    *family({name: name.capitalize() for name in _FLOAT_FUNCTIONS}, unary, _FLOAT_RESULT),
    *family({name: name.capitalize() for name in ("abs", "neg", "sign")}, unary, _NUMBER_RESULT),
    *family({name: name.capitalize() for name in ("isinf", "isnan")}, unary, FLOAT_OPERANDS),
    OperatorRow(overload("relu"), ("Relu",), _relu, (FLOAT_OPERANDS,)),
    *family({"bitwise_not": "BitwiseNot"}, unary, _BITS),
    OperatorRow(
        overload("logical_not"),
        ("LogicalNot", "Ne"),
        _logical_not,
        note="a number becomes bool by comparison with zero",
    ),
)
