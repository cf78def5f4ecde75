# SPDX-License-Identifier: Apache-2.0
"""Tensors out of nothing, and conversions between dtypes."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import ArangeT, FullT, Operation
from torch.fx import Node

from delegatec.backends.mps.compile_spec import Precision
from delegatec.backends.mps.dtypes import TO_FORMAT
from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of, shape_of
from delegatec.backends.mps.operators.family import Lower, overload
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import CONTIGUOUS, EXACT_FLOAT32, exact_number
from delegatec.edge.arguments import bind


def _full(argument: str | None) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        value = 0 if argument is None else bind(node)[argument]
        dtype = dtype_of(node)
        table = FullT(
            input1Id=-1,
            outputId=b.result(node),
            shape=list(shape_of(node)),
            fillValue=b.number(value, dtype),
            dtype=TO_FORMAT[b.physical(dtype)],
        )
        b.emit(Operation.Full, table)

    return lower


def _arange(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    start, end, step = (float(bound[name]) for name in ("start", "end", "step"))
    table = ArangeT(
        outputId=b.result(node), start=start, end=end, step=step, dtype=TO_FORMAT[b.physical(dtype)]
    )
    b.emit(Operation.Arange, table)


def _to_copy(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.operand(bind(node)["self"], dtype_of(node)))


def _inexact_range(node: Node, precision: Precision) -> str | None:
    bound = bind(node)
    last = max(abs(bound["start"]), abs(bound["end"]))
    half = precision is Precision.FP16 and dtype_of(node) == torch.float32
    limit = 2**11 if half or dtype_of(node) == torch.float16 else EXACT_FLOAT32
    return f"it reaches {last}" if last > limit else None


def _row(name: str, operations: str, lower: Lower, *constraints: Constraint, note: str = "") -> OperatorRow:
    return OperatorRow(
        overload(name), tuple(operations.split()), lower, constraints, computes=False, note=note
    )


ROWS: Final = (
    _row("full", "Full", _full("fill_value"), exact_number("fill_value")),
    _row(
        "full_like",
        "Full",
        _full("fill_value"),
        exact_number("fill_value"),
        note="of the operand's static shape",
    ),
    _row("scalar_tensor", "Full", _full("s"), exact_number("s")),
    _row("empty.memory_format", "Full", _full(None), CONTIGUOUS, note="zeros"),
    _row(
        "arange.start_step",
        "Arange",
        _arange,
        Constraint(
            "argument",
            "Its numbers are at most 2^24, in float16 2^11: beyond, the runtime's steps are not exact.",
            _inexact_range,
        ),
    ),
    _row("_to_copy", "Cast Ne", _to_copy, CONTIGUOUS, note="to bool by comparison with zero"),
)
