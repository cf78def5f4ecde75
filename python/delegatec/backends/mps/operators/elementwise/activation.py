# SPDX-License-Identifier: Apache-2.0
"""Activation functions with parameters."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import (
    GeluT,
    LeakyReluT,
    Operation,
    SoftmaxT,
)
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import argument, rank_of

_SMALLEST_LOGARITHM: Final = 87.0
"""Minus the logarithm of the smallest normal float32, approximately."""


def _gelu(b: GraphBuilder, node: Node) -> None:
    table = GeluT(input1Id=b.of(bind(node)["self"]), outputId=b.result(node), approximate="none")
    b.emit(Operation.Gelu, table)


def _leaky_relu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    slope = b.representable(bound["negative_slope"], dtype_of(node))
    table = LeakyReluT(input1Id=b.of(bound["self"]), outputId=b.result(node), negativeSlope=slope)
    b.emit(Operation.LeakyRelu, table)


def _softmax(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        bound = bind(node)
        dim = positive(bound["dim"], len(shape_of(node)))
        b.emit(operation, SoftmaxT(input1Id=b.of(bound["self"]), outputId=b.result(node), dim=dim))

    return lower


def _underflow(node: Node, facts: Facts) -> str | None:
    """The reason why an element of the softmax may be too small to have a precise logarithm."""
    bound = bind(node)
    if dtype_of(bound["self"]) != torch.float32:
        return "softmax in float16"
    size = shape_of(node)[bound["dim"]]
    least = facts.of(bound["self"]).width + math.log(size)
    return None if least < _SMALLEST_LOGARITHM else "an unbounded operand"


_SOFTMAX_RULES: Final = (
    FLOAT_OPERANDS,
    argument("half_to_float", lambda value: not value, "half_to_float is false: the runtime aborts on it."),
    rank_of("self", range(1, 5), "MPSGraph reduces the last four dimensions only."),
)

ROWS: Final = (
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
    OperatorRow(overload("_softmax"), _softmax(Operation.Softmax), _SOFTMAX_RULES),
    OperatorRow(
        overload("_log_softmax"),
        _softmax(Operation.LogSoftmax),
        _SOFTMAX_RULES,
        known=(
            constraint.Constraint(
                "underflow",
                "No element of the softmax underflows: the runtime takes its logarithm, minus infinity then.",
                _underflow,
            ),
        ),
    ),
)
