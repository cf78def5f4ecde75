# SPDX-License-Identifier: Apache-2.0
"""Reductions along dimensions, maxima of windows with their indices, and softmax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import DataType, Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import operand, softmax_of_rows
from delegatec.backends.xnnpack.building.reductions import largest_of, mean_of, sum_of
from delegatec.backends.xnnpack.building.views import viewed
from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.backends.xnnpack.operators.row import Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOAT_RESULT, FLOATS_OR_BOOLS, SUMMED
from delegatec.edge.arguments import bind, dtype_of, positive, read_results
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


def _argmax_pool(b: GraphBuilder, node: Node) -> None:
    """Emits maxima and their indices. The runtime crashes if no operation reads the indices."""
    bound, (value, _) = bind(node), node.meta["val"]
    source, kernel = b.of(bound["x"]), bound["kernel"]
    maxima = b.temporary(value.shape, value.dtype)
    b.alias(node, maxima, 0)
    if 1 not in read_results(node):
        b.emit(Operation.MaxPooling, schema.PoolingT(0, 0, 0, 0, *kernel, *kernel, 1, 1, source, maxima, 0))
        return
    index = b.value(DataType.INT32, value.shape, torch.int32)
    b.emit(Operation.ArgMaxPooling, schema.ArgMaxPoolingT(0, 0, 0, 0, *kernel, source, maxima, index, 0))
    b.alias(node, b.convert(index, b.temporary(value.shape, value.dtype)), 1)


def _to_index(b: GraphBuilder, node: Node) -> None:
    source = b.of(bind(node)["x"])
    b.alias(node, b.convert(source, b.value(DataType.INT32, b.shape_of(source), torch.int32)))


_NAN: Final = "a pooling; NaN may be lost"

ROWS: Final[tuple[OperatorRow, ...]] = (
    _row("_softmax", _softmax, HAS_AXIS, _LAST),
    *(_row(name, _reduction(mean_of), SUMMED) for name in ("mean", "mean.dim")),
    _row("sum.dim_IntList", _reduction(sum_of), SUMMED, FLOAT_RESULT, dtypes=FLOATS_OR_BOOLS),
    *(_row(name, _reduction(largest_of), SUMMED, note=_NAN) for name in ("amax", "max")),
    _row(XNNPACK.argmax_pool2d.default, _argmax_pool, note="NaN is not found"),
    _row(XNNPACK.to_index.default, _to_index),
)
