# SPDX-License-Identifier: Apache-2.0
"""Square roots and their reciprocals.

Those of a mean or a sum, with an epsilon or a factor between them, read it as float32: the variance of small
activations is among the numbers of which float16 has few digits, and that of large ones is beyond it, while
the root of both is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder, Number
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of

aten = torch.ops.aten

# A smaller epsilon alone has a reciprocal root that float16 does not.
_LEAST_EPSILON: Final = 65000.0**-2


def _guarded(x: Expression, number: Number) -> Expression:
    return x + (max(number, _LEAST_EPSILON) if number > 0 else number)


_WITH_NUMBER: Final[dict[OpOverload, Callable[[Expression, Number], Expression]]] = {
    **dict.fromkeys((aten.add.Scalar, aten.add.Tensor), _guarded),
    **dict.fromkeys((aten.mul.Scalar, aten.mul.Tensor), Expression.__mul__),
    **dict.fromkeys((aten.div.Scalar, aten.div.Tensor), Expression.__truediv__),
}


def unrounded(b: GraphBuilder, node: Node) -> Expression | None:
    """A mean or a sum, or what it is with a number added or multiplied, in float32; None for all else.

    With fp16 alone; an epsilon is at least what leaves the reciprocal root within float16.
    """
    if node in b.unrounded:
        return Expression(b, b.unrounded[node])
    if node.target not in _WITH_NUMBER:
        return None
    bound = bind(node)
    number = bound["other"]
    inner = None if isinstance(number, Node) or bound.get("alpha", 1) != 1 else unrounded(b, bound["self"])
    return None if inner is None else _WITH_NUMBER[node.target](inner, number)


def _root(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        source = bind(node)["self"]
        x = unrounded(b, source) or operand(b, source, dtype_of(node))
        x.unary(operation).to(dtype_of(node)).bind(node)

    return lower


ROWS: Final = tuple(
    OperatorRow(
        overload(name),
        (name.capitalize(), "Add", "Mul", "Div"),
        _root(getattr(Operation, name.capitalize())),
        (result_dtypes(FLOATS, "MPSGraph computes it in floating point only.", "convert to float32"),),
        note="with fp16 that of a mean or a sum in float32",
    )
    for name in ("rsqrt", "sqrt")
)
