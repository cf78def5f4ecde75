# SPDX-License-Identifier: Apache-2.0
"""Division.

The runtime rounds the quotient of two floats first to float32, then to an integer: it floors 1 / 0.1 to 10.
That is exact for powers of two only. It floors infinity to infinity, where ATen's quotient is NaN.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import DivisionT, Operation
from torch.fx import Node

from delegatec.backends.common.row import variants
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import binary
from delegatec.backends.mps.dtypes import FLOATS, INTEGERS, NUMERIC
from delegatec.backends.mps.operators.family import Lower, family
from delegatec.backends.mps.operators.row import Constraint
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rules.division import is_power_of_two


def _true(b: GraphBuilder, node: Node) -> None:
    """Divides integers in float32, for any dtype of the result."""
    first, second, *_ = bind(node).values()
    are_floats = any(isinstance(o, Node) and dtype_of(o) in FLOATS for o in (first, second))
    dtype = dtype_of(node) if are_floats else torch.float32
    quotient = binary(b, Operation.Div, b.operand(first, dtype), b.operand(second, dtype))
    b.alias(node, b.converted(quotient, dtype_of(node)))


def _rounded(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        first, second, *_ = bind(node).values()
        dtype = dtype_of(node)
        mode = _mode(node) if dtype in FLOATS else None
        ids = (b.operand(each, dtype) for each in (first, second))
        b.emit(operation, DivisionT(*ids, outputId=b.result(node), roundingMode=mode))

    return lower


def _mode(node: Node) -> Any:
    """Returns the rounding mode."""
    is_fmod = node.target in (torch.ops.aten.fmod.Scalar, torch.ops.aten.fmod.Tensor)
    return bind(node).get("rounding_mode", "trunc" if is_fmod else "floor")


def _inexact(node: Node, _: object) -> str | None:
    _, divisor, *_ = bind(node).values()
    dtype = dtype_of(node)
    if "rounding_mode" in bind(node) and _mode(node) == "trunc":
        return None if dtype == torch.float32 or dtype in INTEGERS else "the quotient of float16 is truncated"
    if dtype != torch.float32:
        return "its dtype is not float32"
    if node.target is not torch.ops.aten.remainder.Scalar and _mode(node) == "floor":
        return "the quotient of infinity is NaN"
    return None if is_power_of_two(divisor) else "the divisor is not a power of two"


_EXACT: Final = Constraint(
    "argument",
    "The divisor is a power of two, so that the float32 quotient is exact, or rounding_mode is trunc.",
    _inexact,
)
_NUMERIC_RESULT: Final = result_dtypes(
    NUMERIC, "MPSGraph does not have arithmetic on bools.", "convert to int32"
)
_ROUNDED: Final = {
    **variants({"div": "Div"}, "Tensor_mode", "Scalar_mode"),
    **variants({"remainder": "Remainder", "fmod": "Fmod"}, "Scalar"),
}

ROWS: Final = (
    *family(variants({"div": "Div"}, "Tensor", "Scalar"), lambda _: _true, _NUMERIC_RESULT),
    *family(_ROUNDED, _rounded, _NUMERIC_RESULT, _EXACT),
)
