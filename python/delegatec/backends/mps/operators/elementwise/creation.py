# SPDX-License-Identifier: Apache-2.0
"""Creation of tensors, and conversions between dtypes."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.mps_graph import ArangeT, Operation
from torch.fx import Node

from delegatec.backends.common.node_values import Number
from delegatec.backends.common.row import overload
from delegatec.backends.common.settings import Precision
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import full
from delegatec.backends.mps.compile_spec import Settings
from delegatec.backends.mps.dtypes import TO_FORMAT
from delegatec.backends.mps.operators.family import movement
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import CONTIGUOUS, EXACT_FLOAT32, exact_scalar
from delegatec.edge.analysis.facts import STATED, Facts
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.rules.creation import is_narrower


def _full(b: GraphBuilder, node: Node) -> None:
    """Emits a scalar broadcast to a shape; of rank 0 it is a constant."""
    scalar, *_ = (value for name, value in bind(node).items() if name in ("fill_value", "s"))
    if shape_of(node):
        b.alias(node, full(b, shape_of(node), scalar, dtype_of(node)))
    else:
        b.alias(node, b.scalar(scalar, dtype_of(node)))


def _arange(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    start, end, step = (float(bound[name]) for name in ("start", "end", "step"))
    table = ArangeT(outputId=b.result(node), start=start, end=end, step=step, dtype=TO_FORMAT[dtype])
    b.emit(Operation.Arange, table)


def _to_copy(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.converted(b.of(bind(node)["self"]), dtype_of(node)))


def _beyond(node: Node, facts: Facts) -> str | None:
    if STATED in node.meta or not is_narrower(node):
        return None
    found, limits = facts.of(bind(node)["self"]), torch.iinfo(dtype_of(node))
    return (
        None if limits.min <= found.low and found.high <= limits.max else "integers may be beyond the dtype"
    )


def _no_bool(node: Node, _: object) -> str | None:
    return "bool" if shape_of(node) and dtype_of(node) == torch.bool else None


def float32(scalar: Number) -> float:
    """Rounds a scalar to float32."""
    return torch.tensor(scalar, dtype=torch.float64).to(torch.float32).item()


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
    return f"its largest element is {last}" if last > limit else None


_HELD: Final = (
    # MPSGraph makes a bool of a scalar that is not 0 or 1: github.com/pytorch/pytorch/pull/78319
    Constraint(
        "dtype", "The result is not bool: MPSGraph fills it with the scalar, not with 0 or 1.", _no_bool
    ),
    exact_scalar("fill_value"),
)

ROWS: Final = (
    movement("full", _full, *_HELD),
    movement("scalar_tensor", _full),
    movement(
        "arange.start_step",
        _arange,
        Constraint(
            "argument",
            "Elements are at most 2^24, in float16 2^11: larger ones are not exact in the runtime. "
            "The size equals the runtime's, which computes it from start, end and step in float32.",
            _inexact_range,
        ),
    ),
    OperatorRow(
        overload("_to_copy"),
        _to_copy,
        (CONTIGUOUS,),
        computes=False,
        note="to bool by comparison with zero",
        known=(
            constraint.Constraint(
                "range",
                "Integers are in the range of a smaller dtype: what MPSGraph's cast does beyond it is not "
                "documented.",
                _beyond,
            ),
        ),
    ),
)
