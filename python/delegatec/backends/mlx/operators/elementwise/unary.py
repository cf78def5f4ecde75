# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.dtypes import FLOATS, INTEGERS, NUMERIC
from delegatec.backends.mlx.operators.row import Lower, family, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, FROM_1_5_1
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import operand_dtypes, result_dtypes


def unary(name: str, dtype: Callable[[Node], torch.dtype] = dtype_of) -> Lower:
    """Returns the lowering to a node of one operand, by default in the dtype of the result."""

    def lower(b: GraphBuilder, node: Node) -> None:
        source = b.operand(bind(node)["self"], dtype(node))
        b.emit(name, x=source, out=b.result(node))

    return lower


def _isnan(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    b.emit("NotEqual", a=x, b=x, out=b.result(node))


def _isinf(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    size = b.temporary(x.shape, x.dtype)
    b.emit("Abs", x=x, out=size)
    b.emit("Equal", a=size, b=b.scalar(math.inf, x.dtype), out=b.result(node))


def _gelu(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.emit("Gelu", x=b.of(bound["self"]), out=b.result(node), approximate=bound["approximate"])


def _relu(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    b.emit("Maximum", a=x, b=b.scalar(0, x.dtype), out=b.result(node))


def _invert(b: GraphBuilder, node: Node) -> None:
    x = b.of(bind(node)["self"])
    b.emit("LogicalNot" if x.dtype == torch.bool else "BitwiseInvert", x=x, out=b.result(node))


_FUNCTIONS: Final = {
    "acos": "Arccos",
    "acosh": "Arccosh",
    "asin": "Arcsin",
    "asinh": "Arcsinh",
    "atan": "Arctan",
    "atanh": "Arctanh",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "expm1": "Expm1",
    "log": "Log",
    "log10": "Log10",
    "log1p": "Log1p",
    "log2": "Log2",
    "reciprocal": "Reciprocal",
    "rsqrt": "Rsqrt",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
_FLOAT_RESULT: Final = result_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")
_NUMERIC_RESULT: Final = result_dtypes(NUMERIC, "MLX does not compute bools.", "convert to int32")
_BITS: Final = operand_dtypes(INTEGERS | {torch.bool}, "it works on bits.")

ROWS: Final = (
    *family(_FUNCTIONS, unary, _FLOAT_RESULT),
    *family({"neg": "Neg", "abs": "Abs", "sign": "Sign"}, unary, _NUMERIC_RESULT),
    *family({"ceil": "Ceil", "floor": "Floor", "round": "Round"}, unary, _FLOAT_RESULT),
    *family({"trunc": "Trunc"}, unary, _FLOAT_RESULT, FROM_1_5_1),
    *family({"silu": "Silu"}, unary, FLOAT_OPERANDS, preserved=True),
    *family({"logical_not": "LogicalNot"}, lambda name: unary(name, lambda _: torch.bool)),
    operator_row("bitwise_not", _invert, _BITS, note="LogicalNot for bools"),
    operator_row("gelu", _gelu, FLOAT_OPERANDS),
    operator_row("relu", _relu, _NUMERIC_RESULT),
    operator_row("isnan", _isnan, FLOAT_OPERANDS, note="whether it differs from itself"),
    operator_row("isinf", _isinf, FLOAT_OPERANDS, note="whether its absolute value is infinite"),
)
