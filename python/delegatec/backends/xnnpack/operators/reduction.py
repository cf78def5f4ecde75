# SPDX-License-Identifier: Apache-2.0
"""Reductions along dimensions, and softmax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import (
    binary,
    converted,
    operand,
    reshaped,
    softmax_of_rows,
    unary,
)
from delegatec.backends.xnnpack.building.reductions import largest_of, mean_of, sum_of
from delegatec.backends.xnnpack.building.views import viewed
from delegatec.backends.xnnpack.operators.positions import POSITIONS, with_position
from delegatec.backends.xnnpack.operators.row import Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOAT_RESULT, FLOATS_OR_BOOLS, SHAPES, SUMMED
from delegatec.edge.arguments import bind, dtype_of, positive
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.constraints import HAS_AXIS
from delegatec.edge.legalize.rules.reductions import reduced_dims

_row: Final = functools.partial(operator_row, resizes=True)


def _softmax(b: GraphBuilder, node: Node) -> None:
    b.alias(node, softmax_of_rows(b, b.of(bind(node)["self"])))


def _columns(node: Node, _: object) -> str | None:
    bound = bind(node)
    rank = bound["self"].meta["val"].dim()
    return None if positive(bound["dim"], rank) == rank - 1 else f"dim is {bound['dim']} of {rank}"


_LAST: Final = Constraint[object](
    "argument", "The dimension is the last one: XNNPACK has no softmax along others.", _columns
)


def _reduction(reduce: Callable[[GraphBuilder, int, Sequence[int]], int]) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        source, dims = operand(b, bind(node)["self"], dtype_of(node)), reduced_dims(node)
        result = reduce(b, source, dims) if dims else source
        b.alias(node, viewed(b, result, node.meta["val"].shape))

    return lower


def _along(is_largest: bool, reduce: Callable[[GraphBuilder, int, Sequence[int]], int]) -> Lower:
    """Returns the lowering of an extremum, and of its index where that is used."""

    def alone(b: GraphBuilder, node: Node) -> None:
        result = reduce(b, b.of(bind(node)["self"]), reduced_dims(node))
        b.alias(node, reshaped(b, result, node.meta["val"][0].shape), 0)

    return with_position(is_largest, alone)


def _least(b: GraphBuilder, id: int, dims: Sequence[int]) -> int:
    return unary(b, Operation.Negate, largest_of(b, unary(b, Operation.Negate, id), dims))


def _log_softmax(b: GraphBuilder, node: Node) -> None:
    """Computes (x - m) - log(sum(exp(x - m))) in float32, where m is the maximum of x."""
    bound = bind(node)
    x = operand(b, bound["self"], torch.float32)
    dims = [positive(bound["dim"], len(b.shape_of(x)))]
    shifted = binary(b, Operation.Subtract, x, largest_of(b, x, dims))
    total = sum_of(b, unary(b, Operation.Exp, shifted), dims)
    result = binary(b, Operation.Subtract, shifted, unary(b, Operation.Log, total))
    b.alias(node, converted(b, result, dtype_of(node)))


_NAN: Final = "a pooling; NaN may be lost"

ROWS: Final[tuple[OperatorRow, ...]] = (
    _row("_softmax", _softmax, HAS_AXIS, _LAST),
    _row("_log_softmax", _log_softmax, HAS_AXIS, SUMMED, note="in float32"),
    *(_row(name, _reduction(mean_of), SUMMED) for name in ("mean", "mean.dim")),
    _row("sum.dim_IntList", _reduction(sum_of), SUMMED, FLOAT_RESULT, dtypes=FLOATS_OR_BOOLS),
    *(_row(name, _reduction(largest_of), SUMMED, note=_NAN) for name in ("amax", "max")),
    *(_row(name, _reduction(_least), SUMMED, note=_NAN) for name in ("amin", "min")),
    *(
        _row(name, _along(is_largest, reduce), *SHAPES, HAS_AXIS, SUMMED, *POSITIONS, note=_NAN)
        for name, is_largest, reduce in (("max.dim", True, largest_of), ("min.dim", False, _least))
    ),
)
