# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import variants
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, clamp, converted, operand, unary
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operators.row import Constraint, Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import CONSTANT_SCALAR, FLOAT_RESULT, FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import argument

_row: Final = functools.partial(operator_row, resizes=True)

_UNARY: Final = {
    "abs": "Absolute",
    "ceil": "Ceiling",
    "cos": "Cos",
    "floor": "Floor",
    "hardswish": "HardSwish",
    "log": "Log",
    "neg": "Negate",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sqrt": "SquareRoot",
    "tanh": "Tanh",
}
_SUMS: Final = (torch.ops.aten.add.Tensor, torch.ops.aten.add.Scalar)
_PRESERVED: Final = frozenset({"hardswish"})
_BINARY: Final = {
    "add": "Add",
    "div": "Divide",
    "mul": "Multiply",
    "sub": "Subtract",
}
_EXTREMA: Final = {"maximum": "Maximum", "minimum": "Minimum"}


def _unary(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        b.alias(node, unary(b, operation, b.of(bind(node)["self"])))

    return lower


def _binary(operation: int) -> Lower:
    """Returns the lowering of a function of two operands, the second times `alpha` if there is one."""

    def lower(b: GraphBuilder, node: Node) -> None:
        dtype = dtype_of(node)
        first, second, *rest = bind(node).values()
        alpha = rest[0] if rest else 1
        if isinstance(second, (int, float)):
            second, alpha = second * alpha, 1
        right = operand(b, second, dtype)
        if alpha != 1:
            right = binary(b, Operation.Multiply, right, float(alpha))
        b.alias(node, binary(b, operation, operand(b, first, dtype), right))

    return lower


def _extremum(operation: int) -> Lower:
    """Returns the lowering of a minimum or maximum: a clamp, if an operand is one constant number."""
    plain = _binary(operation)

    def lower(b: QuantizedBuilder, node: Node) -> None:
        first, second = bind(node).values()
        if b.scale_of(node) is not None:
            plain(b, node)
            return
        for source, other in ((first, second), (second, first)):
            bound = _number(b, other)
            if bound is None or b.constant_value(source) is not None:
                continue
            x = operand(b, source, dtype_of(node))
            limits = (bound, math.inf) if operation == Operation.Maximum else (-math.inf, bound)
            b.alias(node, clamp(b, x, *limits))
            return
        plain(b, node)

    return lower


def _number(b: GraphBuilder, node: Node) -> float | None:
    """Returns the value of a constant float without dimensions that is not NaN."""
    tensor = b.constant_value(node)
    if tensor is None or tensor.dim() or not tensor.dtype.is_floating_point or tensor.isnan():
        return None
    return float(tensor)


def _reversed_sub(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    right = operand(b, bound["self"], dtype)
    if bound["alpha"] != 1:
        right = binary(b, Operation.Multiply, right, float(bound["alpha"]))
    b.alias(node, binary(b, Operation.Subtract, operand(b, bound["other"], dtype), right))


def _reciprocal(b: GraphBuilder, node: Node) -> None:
    b.alias(node, binary(b, Operation.Divide, 1.0, b.of(bind(node)["self"])))


def _exp(b: QuantizedBuilder, node: Node) -> None:
    """Computes floats in float32: in float16, XNNPACK's kernel returns infinity above 44,000."""
    x = b.of(bind(node)["self"])
    if b.scale_of(node) is not None:
        b.alias(node, unary(b, Operation.Exp, x))
    else:
        result = unary(b, Operation.Exp, converted(b, x, torch.float32))
        b.alias(node, converted(b, result, dtype_of(node)))


def _may_be_zero(node: Node, _: object) -> str | None:
    source = bind(node)["self"]
    scalar = bind(source)["other"] if source.target in _SUMS else None
    return None if isinstance(scalar, float) and scalar > 0 else "no positive scalar is added before"


_POSITIVE_TERM: Final = Constraint(
    "argument",
    "The operand is a sum with a positive scalar, as in norms: XNNPACK's operation is NaN for zero.",
    _may_be_zero,
)
_SQUARE: Final = argument("exponent", lambda value: value == 2, "XNNPACK has the square.")


def _rows() -> Iterator[OperatorRow]:
    for name, operation in _UNARY.items():
        yield _row(name, _unary(getattr(Operation, operation)), preserved=name in _PRESERVED)
    yield _row("exp", _exp)
    yield _row("pow.Tensor_Scalar", _unary(Operation.Square), _SQUARE)
    yield _row("rsqrt", _unary(Operation.ReciprocalSquareRoot), _POSITIVE_TERM)
    yield _row("reciprocal", _reciprocal, note="one divided by the operand")
    for name, operation in _BINARY.items():
        names = variants({name: operation}, "Tensor", "Scalar") if len(name) == 3 else {name: operation}
        for each in names:
            yield _row(
                each,
                _binary(getattr(Operation, operation)),
                CONSTANT_SCALAR,
                FLOAT_RESULT,
                dtypes=FLOATS_OR_BOOLS,
            )
    for name, operation in _EXTREMA.items():
        lower = _extremum(getattr(Operation, operation))
        yield _row(name, lower, CONSTANT_SCALAR, FLOAT_RESULT, dtypes=FLOATS_OR_BOOLS)
    yield _row("rsub.Scalar", _reversed_sub, CONSTANT_SCALAR, FLOAT_RESULT)


ROWS: Final[tuple[OperatorRow, ...]] = tuple(_rows())
