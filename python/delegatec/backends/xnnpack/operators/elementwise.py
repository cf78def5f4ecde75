# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import variants
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, operand, unary
from delegatec.backends.xnnpack.operators.row import Lower, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FIXED_NUMBER, FLOAT_RESULT, FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of

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
    "maximum": "Maximum",
    "minimum": "Minimum",
}


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


def _reversed_sub(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    right = operand(b, bound["self"], dtype)
    if bound["alpha"] != 1:
        right = binary(b, Operation.Multiply, right, float(bound["alpha"]))
    b.alias(node, binary(b, Operation.Subtract, operand(b, bound["other"], dtype), right))


def _reciprocal(b: GraphBuilder, node: Node) -> None:
    b.alias(node, binary(b, Operation.Divide, 1.0, b.of(bind(node)["self"])))


def _reciprocal_root(b: GraphBuilder, node: Node) -> None:
    """Emits a quotient, as XNNPACK's operation is NaN for zero; not after the sum with eps in norms."""
    source = bind(node)["self"]
    x = b.of(source)
    if _is_shifted(source):
        b.alias(node, unary(b, Operation.ReciprocalSquareRoot, x))
    else:
        b.alias(node, binary(b, Operation.Divide, 1.0, unary(b, Operation.SquareRoot, x)))


def _is_shifted(node: Node) -> bool:
    number = bind(node)["other"] if node.target in _SUMS else None
    return isinstance(number, float) and number > 0


def _rows() -> Iterator[OperatorRow]:
    for name, operation in _UNARY.items():
        yield _row(name, _unary(getattr(Operation, operation)), preserved=name in _PRESERVED)
    yield _row(
        "rsqrt", _reciprocal_root, note="one divided by the square root, unless a scalar is added before"
    )
    yield _row("reciprocal", _reciprocal, note="one divided by the operand")
    for name, operation in _BINARY.items():
        names = variants({name: operation}, "Tensor", "Scalar") if len(name) == 3 else {name: operation}
        for each in names:
            yield _row(
                each,
                _binary(getattr(Operation, operation)),
                FIXED_NUMBER,
                FLOAT_RESULT,
                dtypes=FLOATS_OR_BOOLS,
            )
    yield _row("rsub.Scalar", _reversed_sub, FIXED_NUMBER, FLOAT_RESULT)


ROWS: Final[tuple[OperatorRow, ...]] = tuple(_rows())
