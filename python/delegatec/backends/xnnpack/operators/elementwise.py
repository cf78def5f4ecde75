# SPDX-License-Identifier: Apache-2.0
"""Functions of single elements."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import variants
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import binary, converted, unary
from delegatec.backends.xnnpack.operators.row import Constraint, Lower, OperatorRow, operator_row
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.symbols import is_number

_row: Final = functools.partial(operator_row, resizes=True)

_UNARY: Final = {
    "abs": "Absolute",
    "ceil": "Ceiling",
    "cos": "Cos",
    "exp": "Exp",
    "floor": "Floor",
    "hardswish": "HardSwish",
    "log": "Log",
    "neg": "Negate",
    "rsqrt": "ReciprocalSquareRoot",
    "sigmoid": "Sigmoid",
    "sin": "Sin",
    "sqrt": "SquareRoot",
    "tanh": "Tanh",
}
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


def operand(b: GraphBuilder, node: Node, value: object) -> int:
    """Returns an operand of a call in the dtype of its result: a tensor, or a number."""
    dtype = dtype_of(node)
    if isinstance(value, Node):
        return converted(b, b.of(value), dtype)
    assert isinstance(value, (bool, int, float))
    return b.number(value, dtype)


def _binary(operation: int) -> Lower:
    """Returns the lowering of a function of two operands, the second times `alpha` if there is one."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second, *rest = bind(node).values()
        alpha = rest[0] if rest else 1
        if isinstance(second, (int, float)):
            second, alpha = second * alpha, 1
        right = operand(b, node, second)
        if alpha != 1:
            right = binary(b, Operation.Multiply, right, float(alpha))
        b.alias(node, binary(b, operation, operand(b, node, first), right))

    return lower


def _reversed_sub(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    right = operand(b, node, bound["self"])
    if bound["alpha"] != 1:
        right = binary(b, Operation.Multiply, right, float(bound["alpha"]))
    b.alias(node, binary(b, Operation.Subtract, operand(b, node, bound["other"]), right))


def _varying_number(node: Node, _: object) -> str | None:
    return "a number that varies" if any(map(is_number, node.all_input_nodes)) else None


_FIXED_NUMBER: Final = Constraint("argument", "A number is a constant of the graph.", _varying_number)


def _power(b: GraphBuilder, node: Node) -> None:
    b.alias(node, unary(b, Operation.Square, b.of(bind(node)["self"])))


def _reciprocal(b: GraphBuilder, node: Node) -> None:
    b.alias(node, binary(b, Operation.Divide, 1.0, b.of(bind(node)["self"])))


_SQUARED: Final = Constraint(
    "argument",
    "The exponent is 2: XNNPACK has the square only.",
    lambda node, _: None if bind(node)["exponent"] == 2 else f"exponent is {bind(node)['exponent']}",
)


def _rows() -> Iterator[OperatorRow]:
    for name, operation in _UNARY.items():
        yield _row(name, _unary(getattr(Operation, operation)), preserved=name in _PRESERVED)
    yield _row("pow.Tensor_Scalar", _power, _SQUARED)
    yield _row("reciprocal", _reciprocal, note="one divided by the operand")
    for name, operation in _BINARY.items():
        names = variants({name: operation}, "Tensor", "Scalar") if len(name) == 3 else {name: operation}
        for each in names:
            yield _row(each, _binary(getattr(Operation, operation)), _FIXED_NUMBER)
    yield _row("rsub.Scalar", _reversed_sub, _FIXED_NUMBER)


ROWS: Final[tuple[OperatorRow, ...]] = tuple(_rows())
