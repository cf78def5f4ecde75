# SPDX-License-Identifier: Apache-2.0
"""Activation functions with parameters of their own."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import (
    BinaryT,
    GeluT,
    LeakyReluT,
    Operation,
    SoftmaxT,
    SplitWithSizesT,
    UnaryT,
)
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import NUMBERS
from delegatec.backends.mps.operators.elementwise.elementary import expm1
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import argument, operand_dtypes
from delegatec.edge.nodes import dtype_of, positive, shape_of

_SMALLEST_LOGARITHM: Final = 87.0
_REDUCED_RANK: Final = 4
"""exp of its negative is the smallest float32 that is not subnormal, about."""


def _relu(b: GraphBuilder, node: Node) -> None:
    source = operand(b, bind(node)["self"])
    if not source.dtype.is_floating_point:
        source.clamp(0).bind(node)
        return
    # The format gives Relu a second operand, which the runtime does not read.
    table = BinaryT(input1Id=source.id, outputId=b.result(node))
    b.emit(Operation.Relu, table)


def _gelu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = operand(b, bound["self"])
    if bound["approximate"] == "tanh":
        _gelu_tanh(x).bind(node)
        return
    table = GeluT(input1Id=x.id, outputId=b.result(node), approximate="none")
    b.emit(Operation.Gelu, table)


def _gelu_tanh(x: Expression) -> Expression:
    """0.5 x (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x^2))); the runtime would give x tanh(x)."""
    bend = x * x * 0.044715 + 1.0
    gate = (x * math.sqrt(2 / math.pi) * bend).unary(Operation.Tanh)
    return x * ((gate + 1.0) * 0.5)


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
    """With a slope beyond one it is no longer the larger of x and slope x, which MPSGraph may take."""
    bound = bind(node)
    x, slope = operand(b, bound["self"]), bound["negative_slope"]
    if not 0.0 < slope <= 1.0:
        x.compare(Operation.Lt, 0.0).where(x * slope, x).bind(node)
        return
    table = LeakyReluT(input1Id=x.id, outputId=b.result(node), negativeSlope=b.number(slope, dtype_of(node)))
    b.emit(Operation.LeakyRelu, table)


def _elu(b: GraphBuilder, node: Node) -> None:
    """scale x above zero, alpha scale (exp(input_scale x) - 1) below."""
    bound = bind(node)
    x = operand(b, bound["self"])
    below = expm1(x * bound["input_scale"]) * (bound["alpha"] * bound["scale"])
    x.compare(Operation.Lt, 0.0).where(below, x * bound["scale"]).bind(node)


def _softmax(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    softmax(operand(b, bound["self"]), bound["dim"]).bind(node)


def softmax(x: Expression, dim: int, operation: int = Operation.Softmax) -> Expression:
    """The runtime's softmax along a dimension, or its logarithm."""
    shape = x.shape
    x, dim = _of_low_rank(x, dim)
    out = x.builder.temporary(x.shape, x.dtype)
    x.builder.emit(operation, SoftmaxT(input1Id=x.id, outputId=out, dim=dim))
    return Expression(x.builder, out).view(*shape)


def _of_low_rank(x: Expression, dim: int) -> tuple[Expression, int]:
    """A value and a dimension of rank 1 to 4: MPSGraph reduces the last four dimensions only."""
    shape = x.shape
    dim = positive(dim, len(shape) or 1)
    if not shape:
        return x.view(1), dim
    if len(shape) <= _REDUCED_RANK:
        return x, dim
    after = math.prod(shape[dim + 1 :])
    return x.view(math.prod(shape[:dim]), shape[dim], *([after] if after > 1 else [])), 1


def _log_softmax(b: GraphBuilder, node: Node) -> None:
    """(x - m) - log(sum(exp(x - m))), in float32, where m is the mean of x as the softmax weighs it.

    The runtime takes the logarithm of the softmax, which is minus infinity where that underflows. m is less
    than the largest x by no more than the logarithm of their number, so that nothing overflows; the entropy
    of the softmax is what it lacks.
    """
    bound, shape = bind(node), shape_of(node)
    x, dim = operand(b, bound["self"]), bound["dim"]
    if _never_underflows(b, node):
        softmax(x, dim, Operation.LogSoftmax).view(*shape).bind(node)
        return
    x, dim = _of_low_rank(x.to(torch.float32), dim)
    weight = softmax(x, dim)
    # Beside a weight of zero, x may be minus infinity.
    weighed = weight.compare(Operation.Eq, 0.0).where(weight, weight * x)
    shifted = x - weighed.sum(dim)
    total = shifted.unary(Operation.Exp).sum(dim)
    (shifted - total.unary(Operation.Log)).view(*shape).to(dtype_of(node)).bind(node)


def _never_underflows(b: GraphBuilder, node: Node) -> bool:
    """Whether no element of the softmax, in float32, is too small to have a precise logarithm."""
    source, shape = bind(node)["self"], shape_of(node)
    if dtype_of(source) != torch.float32:
        return False
    size = shape[positive(bind(node)["dim"], len(shape))] if shape else 1
    return b.facts.of(source).spread + math.log(size) < _SMALLEST_LOGARITHM


_SOFTMAX_RULES: Final = (
    FLOAT_OPERANDS,
    argument("half_to_float", lambda value: not value, "half_to_float is false: the runtime stops at it."),
)

ROWS: Final = (
    OperatorRow(
        overload("relu"),
        ("Relu", "Clamp"),
        _relu,
        (operand_dtypes(NUMBERS, "MPSGraph has no order on bool.", "convert to int32"),),
        note="NaN becomes zero, where ATen keeps it: to keep it would take four operations for one",
    ),
    OperatorRow(
        overload("gelu"),
        ("Gelu", "Mul", "Add", "Tanh"),
        _gelu,
        (FLOAT_OPERANDS,),
        note="the tanh approximation is composed, as the runtime's is wrong",
    ),
    OperatorRow(overload("glu"), ("SplitWithSizes", "Sigmoid", "Mul"), _glu, (FLOAT_OPERANDS,)),
    OperatorRow(
        overload("leaky_relu"),
        ("LeakyRelu", "Mul", "Lt", "Where"),
        _leaky_relu,
        (FLOAT_OPERANDS,),
        note="composed for slopes that are not in (0, 1]",
    ),
    OperatorRow(
        overload("elu"),
        ("Mul", "Add", "Abs", "Lt", "Exp", "Sub", "Where"),
        _elu,
        (FLOAT_OPERANDS,),
        note="with a series near zero, where exp(x) - 1 loses the digits of x",
    ),
    OperatorRow(overload("_softmax"), ("Softmax", "View", "Permute"), _softmax, _SOFTMAX_RULES),
    OperatorRow(
        overload("_log_softmax"),
        ("LogSoftmax", "Softmax", "Mul", "Eq", "Where", "Mean", "Sub", "Exp", "Log", "View", "Permute"),
        _log_softmax,
        _SOFTMAX_RULES,
        note="LogSoftmax where the operand is bounded such that no softmax underflows, else composed",
    ),
)
