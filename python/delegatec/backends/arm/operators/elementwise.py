# SPDX-License-Identifier: Apache-2.0
"""Functions of elements. TOSA broadcasts operands of one rank and promotes nothing."""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType, NanMode
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import BOOLS, FLOATS, NUMBERS
from delegatec.backends.arm.operators.row import Lower, operand, operator_row, simple, zero_point
from delegatec.edge.arguments import bind, promoted

_UNARY: Final = {
    "exp": "EXP",
    "log": "LOG",
    "sin": "SIN",
    "cos": "COS",
    "tanh": "TANH",
    "sigmoid": "SIGMOID",
    "erf": "ERF",
    "rsqrt": "RSQRT",
    "reciprocal": "RECIPROCAL",
    "floor": "FLOOR",
    "ceil": "CEIL",
}
_COMPARISONS: Final = {
    "eq": ("EQUAL", False),
    "gt": ("GREATER", False),
    "ge": ("GREATER_EQUAL", False),
    "lt": ("GREATER", True),
    "le": ("GREATER_EQUAL", True),
}
_PROPAGATE: Final = {"nan_mode": NanMode.PROPAGATE}


def _operands(node: Node) -> tuple[Any, Any]:
    first, second, *_ = bind(node).values()
    return first, second


def _binary(name: str, **attributes: Any) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        b.result(node, name, *(operand(b, each, node) for each in _operands(node)), **attributes)

    return lower


def _scaled(name: str) -> Lower:
    """Returns the lowering of `self op alpha * other`."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (operand(b, each, node) for each in _operands(node))
        alpha = bind(node)["alpha"]
        if alpha != 1:
            factor = b.number(alpha, second.dtype, len(second.shape))
            second = b.emit("MUL", second, factor, b.number(0, DType.INT8), shape=second.shape)
        b.result(node, name, first, second)

    return lower


def _mul(b: GraphBuilder, node: Node) -> None:
    first, second = (operand(b, each, node) for each in _operands(node))
    b.result(node, "MUL", first, second, b.number(0, DType.INT8))


def _negate(b: GraphBuilder, node: Node) -> None:
    value = b.of(bind(node)["self"])
    zero = zero_point(b, value)
    b.result(node, "NEGATE", value, zero, zero)


def _comparison(name: str, is_reversed: bool) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        dtype = promoted(_operands(node))
        first, second = (operand(b, each, node, dtype) for each in _operands(node))
        b.result(node, name, *((second, first) if is_reversed else (first, second)))

    return lower


ROWS: Final = (
    *(operator_row(name, simple(operation), FLOATS) for name, operation in _UNARY.items()),
    operator_row("abs", simple("ABS"), FLOATS | {torch.int32, torch.int64}),
    operator_row("neg", _negate, NUMBERS),
    operator_row("logical_not", simple("LOGICAL_NOT"), BOOLS),
    *(operator_row(f"add.{kind}", _scaled("ADD"), NUMBERS) for kind in ("Tensor", "Scalar")),
    *(operator_row(f"sub.{kind}", _scaled("SUB"), NUMBERS) for kind in ("Tensor", "Scalar")),
    *(operator_row(f"mul.{kind}", _mul, NUMBERS) for kind in ("Tensor", "Scalar")),
    operator_row("maximum", _binary("MAXIMUM", **_PROPAGATE), NUMBERS),
    operator_row("minimum", _binary("MINIMUM", **_PROPAGATE), NUMBERS),
    *(
        operator_row(f"{name}.{kind}", _comparison(*operation), NUMBERS)
        for name, operation in _COMPARISONS.items()
        for kind in ("Tensor", "Scalar")
    ),
)
