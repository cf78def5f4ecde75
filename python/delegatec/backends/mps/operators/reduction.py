# SPDX-License-Identifier: Apache-2.0
"""Reductions."""

from __future__ import annotations

import math
from typing import Final

from torch.fx import Node

from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.expression import Expression, operand
from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of, positive, shape_of
from delegatec.backends.mps.operators.family import overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import rank_of, result_dtypes
from delegatec.edge.arguments import bind


def _dims(node: Node) -> list[int]:
    """Dimensions to reduce, ascending: all if none are given."""
    bound = bind(node)
    rank = len(shape_of(bound["self"]))
    return sorted(positive(dim, rank) for dim in bound.get("dim") or range(rank))


def _mean_of(b: GraphBuilder, node: Node) -> Expression:
    bound = bind(node)
    return operand(b, bound["self"], dtype_of(node)).mean(_dims(node), bound.get("keepdim", False))


def _mean(b: GraphBuilder, node: Node) -> None:
    _mean_of(b, node).bind(node)


def _sum(b: GraphBuilder, node: Node) -> None:
    shape = shape_of(bind(node)["self"])
    (_mean_of(b, node) * math.prod(shape[dim] for dim in _dims(node))).bind(node)


_RULES: Final = (
    result_dtypes(FLOATS, "MPSGraph computes means in floating point only.", "convert to float32"),
    rank_of("self", range(1, 17), "it has axes."),
)

ROWS: Final = (
    OperatorRow(overload("mean"), ("Mean",), _mean, _RULES),
    OperatorRow(overload("mean.dim"), ("Mean",), _mean, _RULES),
    *(
        OperatorRow(
            overload(name), ("Mean", "Mul"), _sum, _RULES, note="the mean times the number of elements"
        )
        for name in ("sum", "sum.dim_IntList")
    ),
)
