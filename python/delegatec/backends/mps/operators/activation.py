# SPDX-License-Identifier: Apache-2.0
"""Activation functions with parameters of their own."""

from __future__ import annotations

import math
from typing import Final

from delegatec_schemas.mps_graph import (
    BinaryT,
    GeluT,
    LeakyReluT,
    Operation,
    ScaledBinaryT,
    SoftmaxT,
    SplitWithSizesT,
    UnaryT,
)
from torch.fx import Node

from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of, positive, shape_of
from delegatec.backends.mps.operators.family import Lower, family, overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, argument, rank_of
from delegatec.edge.arguments import bind


def _gelu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    operand = b.of(bound["self"])
    if bound["approximate"] == "tanh":
        _gelu_tanh(b, node, operand)
        return
    table = GeluT(input1Id=operand, outputId=b.result(node), approximate="none")
    b.emit(Operation.Gelu, table)


def _gelu_tanh(b: GraphBuilder, node: Node, x: int) -> None:
    """0.5 x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))); the runtime would give x tanh(x)."""
    shape, dtype = shape_of(node), dtype_of(node)

    def step(operation: int, first: int, second: int, out: int | None = None) -> int:
        out = b.temporary(shape, dtype) if out is None else out
        if operation == Operation.Add:
            b.emit(operation, ScaledBinaryT(input1Id=first, input2Id=second, outputId=out, alpha=1.0))
        else:
            b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=out))
        return out

    one, half = b.scalar(1.0, dtype), b.scalar(0.5, dtype)
    square = step(Operation.Mul, x, x)
    bend = step(Operation.Add, step(Operation.Mul, square, b.scalar(0.044715, dtype)), one)
    inner = step(Operation.Mul, step(Operation.Mul, x, b.scalar(math.sqrt(2 / math.pi), dtype)), bend)
    tanh = b.temporary(shape, dtype)
    b.emit(Operation.Tanh, UnaryT(input1Id=inner, outputId=tanh))
    gate = step(Operation.Mul, step(Operation.Add, tanh, one), half)
    step(Operation.Mul, x, gate, b.result(node))


def _glu(b: GraphBuilder, node: Node) -> None:
    """The first half, gated by the sigmoid of the second."""
    bound, shape, dtype = bind(node), shape_of(node), dtype_of(node)
    dim = positive(bound["dim"], len(shape))
    value, gate, opening = (b.temporary(shape, dtype) for _ in range(3))
    sizes = [shape[dim]] * 2
    b.emit(
        Operation.SplitWithSizes,
        SplitWithSizesT(input1Id=b.of(bound["self"]), outputIds=[value, gate], splitSizes=sizes, dim=dim),
    )
    b.emit(Operation.Sigmoid, UnaryT(input1Id=gate, outputId=opening))
    b.emit(Operation.Mul, BinaryT(input1Id=value, input2Id=opening, outputId=b.result(node)))


def _leaky_relu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    slope = b.number(bound["negative_slope"], dtype_of(node))
    table = LeakyReluT(input1Id=b.of(bound["self"]), outputId=b.result(node), negativeSlope=slope)
    b.emit(Operation.LeakyRelu, table)


def _softmax(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        dim = positive(bound["dim"], len(shape_of(node)))
        b.emit(operation, SoftmaxT(input1Id=b.of(bound["self"]), outputId=b.result(node), dim=dim))

    return lower


_SOFTMAX_RULES: Final = (
    FLOAT_OPERANDS,
    rank_of("self", range(1, 17), "it has an axis."),
    argument("half_to_float", lambda value: not value, "The runtime stops at half_to_float."),
)

ROWS: Final = (
    OperatorRow(
        overload("gelu"),
        ("Gelu", "Mul", "Add", "Tanh"),
        _gelu,
        (FLOAT_OPERANDS,),
        note="the tanh approximation is composed, as the runtime's is wrong",
    ),
    OperatorRow(overload("glu"), ("SplitWithSizes", "Sigmoid", "Mul"), _glu, (FLOAT_OPERANDS,)),
    OperatorRow(overload("leaky_relu"), ("LeakyRelu",), _leaky_relu, (FLOAT_OPERANDS,)),
    *family({"_softmax": "Softmax"}, _softmax, *_SOFTMAX_RULES),
    *family(
        {"_log_softmax": "LogSoftmax"},
        _softmax,
        *_SOFTMAX_RULES,
        note="the logarithm of a softmax: minus infinity where that underflows",
    ),
)
