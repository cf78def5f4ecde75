# SPDX-License-Identifier: Apache-2.0
"""Activation functions with parameters."""

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
)
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import argument
from delegatec.edge.nodes import dtype_of, positive, shape_of

_SMALLEST_LOGARITHM: Final = 87.0
_REDUCED_RANK: Final = 4
"""Minus the logarithm of the smallest normal float32, approximately."""


def _relu(b: GraphBuilder, node: Node) -> None:
    # Relu has a second operand in the format, which the runtime does not read.
    b.emit(Operation.Relu, BinaryT(input1Id=b.of(bind(node)["self"]), outputId=b.result(node)))


def _gelu(b: GraphBuilder, node: Node) -> None:
    table = GeluT(input1Id=b.of(bind(node)["self"]), outputId=b.result(node), approximate="none")
    b.emit(Operation.Gelu, table)


def _leaky_relu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    slope = b.number(bound["negative_slope"], dtype_of(node))
    table = LeakyReluT(input1Id=b.of(bound["self"]), outputId=b.result(node), negativeSlope=slope)
    b.emit(Operation.LeakyRelu, table)


def _softmax(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    softmax(operand(b, bound["self"]), bound["dim"]).bind(node)


def softmax(x: Expression, dim: int, operation: int = Operation.Softmax) -> Expression:
    """Emits the runtime's softmax or log-softmax along a dimension."""
    shape = x.shape
    x, dim = _of_low_rank(x, dim)
    out = x.builder.temporary(x.shape, x.dtype)
    x.builder.emit(operation, SoftmaxT(input1Id=x.id, outputId=out, dim=dim))
    return Expression(x.builder, out).view(*shape)


def _of_low_rank(x: Expression, dim: int) -> tuple[Expression, int]:
    """Reshapes to rank 1 to 4: MPSGraph reduces the last four dimensions only."""
    shape = x.shape
    dim = positive(dim, len(shape) or 1)
    if not shape:
        return x.view(1), dim
    if len(shape) <= _REDUCED_RANK:
        return x, dim
    after = math.prod(shape[dim + 1 :])
    return x.view(math.prod(shape[:dim]), shape[dim], *([after] if after > 1 else [])), 1


def _log_softmax(b: GraphBuilder, node: Node) -> None:
    """Computes (x - m) - log(sum(exp(x - m))), in float32, where m is the mean of x weighted by the softmax.

    The runtime computes the logarithm of the softmax, which is minus infinity if that underflows. m is less
    than the maximum of x by at most the logarithm of the size, so that nothing overflows.
    """
    bound, shape = bind(node), shape_of(node)
    x, dim = operand(b, bound["self"]), bound["dim"]
    if _never_underflows(b, node):
        softmax(x, dim, Operation.LogSoftmax).view(*shape).bind(node)
        return
    x, dim = _of_low_rank(x.to(torch.float32), dim)
    weight = softmax(x, dim)
    # If the weight is zero, x may be minus infinity.
    weighed = weight.eq(0.0).where(weight, weight * x)
    shifted = x - weighed.sum(dim)
    total = shifted.exp().sum(dim)
    (shifted - total.log()).view(*shape).to(dtype_of(node)).bind(node)


def _never_underflows(b: GraphBuilder, node: Node) -> bool:
    """Whether all elements of the softmax, in float32, are large enough for a precise logarithm."""
    source, shape = bind(node)["self"], shape_of(node)
    if dtype_of(source) != torch.float32:
        return False
    size = shape[positive(bind(node)["dim"], len(shape))] if shape else 1
    return b.facts.of(source).width + math.log(size) < _SMALLEST_LOGARITHM


_SOFTMAX_RULES: Final = (
    FLOAT_OPERANDS,
    argument("half_to_float", lambda value: not value, "half_to_float is false: the runtime aborts on it."),
)

ROWS: Final = (
    OperatorRow(
        overload("relu"),
        _relu,
        (FLOAT_OPERANDS,),
        note="NaN becomes zero, ATen keeps it: that would take four operations instead of one",
    ),
    OperatorRow(
        overload("gelu"),
        _gelu,
        (
            FLOAT_OPERANDS,
            argument(
                "approximate",
                lambda value: value == "none",
                'approximate is "none": the runtime would compute x tanh(x).',
            ),
        ),
    ),
    OperatorRow(
        overload("leaky_relu"),
        _leaky_relu,
        (
            FLOAT_OPERANDS,
            argument(
                "negative_slope",
                lambda value: 0.0 < value <= 1.0,
                "The slope is in (0, 1], so that it is the larger of x and slope x, which MPSGraph may take.",
            ),
        ),
    ),
    OperatorRow(overload("_softmax"), _softmax, _SOFTMAX_RULES),
    OperatorRow(
        overload("_log_softmax"),
        _log_softmax,
        _SOFTMAX_RULES,
        note="LogSoftmax if the range of the operand excludes underflow, otherwise decomposed",
    ),
)
