# SPDX-License-Identifier: Apache-2.0
"""Creation of tensors, and conversions between dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import ArangeT, FullT, Operation
from torch.fx import Node

from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder, Number
from delegatec.backends.mps.building.values import full, operand
from delegatec.backends.mps.compile_spec import Precision, Settings
from delegatec.backends.mps.dtypes import INTEGERS, TO_FORMAT
from delegatec.backends.mps.operators.family import Lower, movement
from delegatec.backends.mps.operators.row import Constraint
from delegatec.backends.mps.operators.rules import CONTIGUOUS, EXACT_FLOAT32
from delegatec.edge.analysis.facts import STATED
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import dtype_of, shape_of


def _full(argument: str | None) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        value = 0 if argument is None else bind(node)[argument]
        filled(b, shape_of(node), value, dtype_of(node)).bind(node)

    return lower


def filled(b: GraphBuilder, shape: Sequence[int], value: Number, dtype: torch.dtype) -> Expression:
    """Returns a tensor filled with a number.

    Rank 0 is a constant. Full stores the number as float32, and MPSGraph converts numbers other than 0 and 1
    to bool (github.com/pytorch/pytorch/pull/78319): bools and large integers are expanded constants.
    """
    if not shape or dtype == torch.bool or (not dtype.is_floating_point and abs(value) > EXACT_FLOAT32):
        single = Expression(b, b.scalar(value, dtype))
        return single.view(*(1,) * len(shape)).expand(*shape)
    return full(b, shape, value, dtype)


def _full_like(b: GraphBuilder, node: Node) -> None:
    """Emits FullLike, whose shape is that of an operand of the graph: [1] for rank 0."""
    bound, dtype = bind(node), dtype_of(node)
    value = bound["fill_value"]
    if dtype == torch.bool or (not dtype.is_floating_point and abs(value) > EXACT_FLOAT32):
        filled(b, shape_of(node), value, dtype).bind(node)
        return
    table = FullT(
        input1Id=b.of(bound["self"]),
        outputId=b.result(node),
        fillValue=b.number(value, dtype),
        dtype=TO_FORMAT[dtype],
    )
    b.emit(Operation.FullLike, table)


def _arange(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    start, end, step = (float(bound[name]) for name in ("start", "end", "step"))
    table = ArangeT(outputId=b.result(node), start=start, end=end, step=step, dtype=TO_FORMAT[dtype])
    b.emit(Operation.Arange, table)


def _to_copy(b: GraphBuilder, node: Node) -> None:
    x, dtype = operand(b, bind(node)["self"]), dtype_of(node)
    # A value with a stated interval is in the range of the dtype.
    is_narrower = x.dtype in INTEGERS and dtype in INTEGERS and dtype.itemsize < x.dtype.itemsize
    if is_narrower and STATED not in node.meta:
        x = _wrapped(x, dtype)
    x.to(dtype).bind(node)


def _wrapped(x: Expression, dtype: torch.dtype) -> Expression:
    """Wraps integers to a narrower dtype: MPSGraph's cast of others is unspecified."""
    sign = 1 << dtype.itemsize * 8 - 1
    return ((x & (2 * sign - 1)) ^ sign) - sign


def float32(number: Number) -> float:
    """Rounds a number to float32."""
    return torch.tensor(number, dtype=torch.float64).to(torch.float32).item()


def _count(start: float, end: float, step: float) -> int:
    """Returns the runtime's number of elements: a difference of float32, divided as float64."""
    return math.ceil(float32(end - start) / step)


def _inexact_range(node: Node, settings: Settings) -> str | None:
    bound = bind(node)
    last = max(abs(bound["start"]), abs(bound["end"]))
    count = _count(*(float32(bound[name]) for name in ("start", "end", "step")))
    if count != shape_of(node)[0]:
        return f"the runtime would return {count} elements instead of {shape_of(node)[0]}"
    half = settings.precision is Precision.FP16 and dtype_of(node) == torch.float32
    limit = 2**11 if half or dtype_of(node) == torch.float16 else EXACT_FLOAT32
    return f"its largest number is {last}" if last > limit else None


ROWS: Final = (
    movement("full", _full("fill_value")),
    movement("full_like", _full_like),
    movement("scalar_tensor", _full("s")),
    movement("empty.memory_format", _full(None), CONTIGUOUS, note="filled with zeros"),
    movement(
        "arange.start_step",
        _arange,
        Constraint(
            "argument",
            "Its numbers are at most 2^24, 2^11 in float16: beyond that the runtime's steps are not exact. "
            "Its size equals the runtime's, which follows from start, end and step in float32.",
            _inexact_range,
        ),
    ),
    movement(
        "_to_copy",
        _to_copy,
        CONTIGUOUS,
        note="to bool by comparison with zero",
    ),
)
