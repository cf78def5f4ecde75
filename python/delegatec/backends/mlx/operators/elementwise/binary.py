# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, comparisons and logic on two tensors, or a tensor and a scalar.

MLX promotes dtypes by other rules than ATen, so lowerings emit conversions. It has no arithmetic on bools: a
sum of bools is "or", a product "and".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.common.node_values import Operand
from delegatec.backends.common.row import variants
from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.dtypes import FLOATS, HALVES, INTEGERS, NUMERIC
from delegatec.backends.mlx.operators.row import Constraint, Lower, family, operator_row
from delegatec.backends.mlx.operators.rules import KNOWN_NUMBERS
from delegatec.edge.arguments import bind, dtype_of, promoted
from delegatec.edge.legalize.constraints import result_dtypes


def operands_of(node: Node) -> tuple[Operand, Operand]:
    """Returns the first two arguments."""
    first, second, *_ = bind(node).values()
    return first, second


def binary(name: str, dtype: Callable[[Node], torch.dtype] = dtype_of) -> Lower:
    """Returns the lowering to a node of two operands; `dtype` returns that of the operands."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.operand(each, dtype(node)) for each in operands_of(node))
        b.emit(name, a=first, b=second, out=b.result(node))

    return lower


def or_logical(name: str, on_bools: str) -> Lower:
    """Returns the lowering to one node for numbers, and another one for bools."""

    def lower(b: GraphBuilder, node: Node) -> None:
        binary(on_bools if dtype_of(node) == torch.bool else name)(b, node)

    return lower


def _scaled(name: str, *, is_reversed: bool = False) -> Lower:
    """Returns the lowering of `self op alpha * other`, or with exchanged operands."""

    def lower(b: GraphBuilder, node: Node) -> None:
        dtype, alpha = dtype_of(node), bind(node)["alpha"]
        if dtype == torch.bool:
            binary("LogicalOr")(b, node)
            return
        pair = operands_of(node)
        first, second = (b.operand(each, dtype) for each in (reversed(pair) if is_reversed else pair))
        if alpha != 1:
            product = b.temporary(second.shape, dtype)
            b.emit("Multiply", a=second, b=b.scalar(alpha, dtype), out=product)
            second = product
        b.emit(name, a=first, b=second, out=b.result(node))

    return lower


def _quotient(b: GraphBuilder, node: Node) -> None:
    """Divides integers in float32, for any dtype of the result."""
    first, second, *_ = bind(node).values()
    are_floats = any(isinstance(each, Node) and dtype_of(each) in FLOATS for each in (first, second))
    dtype = dtype_of(node) if are_floats else torch.float32
    out = b.result(node)
    quotient = out if out.dtype == dtype else b.temporary(out.shape, dtype)
    b.emit("Divide", a=b.operand(first, dtype), b=b.operand(second, dtype), out=quotient)
    b.alias(node, b.converted(quotient, out.dtype))


def _remainder(b: GraphBuilder, node: Node) -> None:
    """Computes halves in float32: MLX's vector code for a CPU rounds their quotients to the nearest."""
    dtype = dtype_of(node)
    wide = torch.float32 if dtype in HALVES else dtype
    first, second = (b.converted(b.operand(each, dtype), wide) for each in operands_of(node))
    found = b.temporary(node.meta["val"].shape, wide)
    b.emit("Remainder", a=first, b=second, out=found)
    b.alias(node, b.converted(found, dtype))


_POWERS: Final[dict[Any, str]] = {2: "Square", 0.5: "Sqrt", -0.5: "Rsqrt", -1: "Reciprocal"}


def _power(b: GraphBuilder, node: Node) -> None:
    base, exponent = operands_of(node)
    dtype = dtype_of(node)
    if not isinstance(exponent, Node) and exponent in _POWERS:
        b.emit(_POWERS[exponent], x=b.operand(base, dtype), out=b.result(node))
    else:
        binary("Power")(b, node)


def _compared(node: Node) -> torch.dtype:
    """Returns the dtype that torch promotes operands to."""
    return promoted(operands_of(node))


def _scaled_bools(node: Node, _: object) -> str | None:
    if dtype_of(node) == torch.bool and bind(node)["alpha"] != 1:
        return f"alpha is {bind(node)['alpha']}"
    return None


_NUMERIC_RESULT: Final = result_dtypes(NUMERIC, "MLX does not compute bools.", "convert to int32")
_FLOAT_RESULT: Final = result_dtypes(FLOATS, "it is computed in floating point.", "convert to float32")
_BITS_RESULT: Final = result_dtypes(INTEGERS | {torch.bool}, "it works on bits.")
_SCALED: Final = Constraint("argument", "The alpha of bools is 1.", _scaled_bools)
_COMPARISONS: Final = {
    "eq": "Equal",
    "ge": "GreaterEqual",
    "gt": "Greater",
    "le": "LessEqual",
    "lt": "Less",
    "ne": "NotEqual",
}
_LOGICAL: Final = {"logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_xor": "NotEqual"}
_BITWISE: Final = {
    "bitwise_and": ("BitwiseAnd", "LogicalAnd"),
    "bitwise_or": ("BitwiseOr", "LogicalOr"),
    "bitwise_xor": ("BitwiseXor", "NotEqual"),
}

ROWS: Final = (
    *(
        operator_row(name, _scaled("Add"), _SCALED, KNOWN_NUMBERS)
        for name in variants({"add": ""}, "Tensor", "Scalar")
    ),
    *(
        operator_row(name, _scaled("Subtract"), _SCALED, KNOWN_NUMBERS)
        for name in variants({"sub": ""}, "Tensor", "Scalar")
    ),
    operator_row("rsub.Scalar", _scaled("Subtract", is_reversed=True), _SCALED, KNOWN_NUMBERS),
    *(
        operator_row(name, or_logical("Multiply", "LogicalAnd"), KNOWN_NUMBERS)
        for name in variants({"mul": ""}, "Tensor", "Scalar")
    ),
    *(
        operator_row(name, _quotient, _NUMERIC_RESULT, KNOWN_NUMBERS)
        for name in variants({"div": ""}, "Tensor", "Scalar")
    ),
    *(
        operator_row(name, _power, _FLOAT_RESULT, KNOWN_NUMBERS, note="a separate node for squares and roots")
        for name in ("pow.Scalar", "pow.Tensor_Scalar", "pow.Tensor_Tensor")
    ),
    *(
        operator_row(
            name,
            _remainder,
            _NUMERIC_RESULT,
            KNOWN_NUMBERS,
            note="float16 and bfloat16 in float32",
            preserved=True,
        )
        for name in variants({"remainder": ""}, "Tensor", "Scalar")
    ),
    *family({"atan2": "Atan2"}, binary, _FLOAT_RESULT),
    *family({"logaddexp": "LogAddExp"}, binary, _FLOAT_RESULT, preserved=True),
    operator_row("maximum", or_logical("Maximum", "LogicalOr")),
    operator_row("minimum", or_logical("Minimum", "LogicalAnd")),
)

LOGIC: Final = (
    *family(variants(_COMPARISONS, "Tensor", "Scalar"), partial(binary, dtype=_compared), KNOWN_NUMBERS),
    *(
        operator_row(name, or_logical(*nodes), _BITS_RESULT)
        for member, nodes in _BITWISE.items()
        for name in variants({member: ""}, "Tensor", "Scalar")
    ),
    *family(_LOGICAL, partial(binary, dtype=lambda _: torch.bool), note="operands are converted to bool"),
)
