# SPDX-License-Identifier: Apache-2.0
"""Powers.

Metal's `pow` of a negative base is NaN in its fast form, and nothing says which form MPSGraph takes: bases
are made positive, and integer exponents in the program become products, as ATen makes them for small ones.
"""

from __future__ import annotations

import math
from typing import Final

from delegatec_schemas.mps_graph import BinaryT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand
from delegatec.backends.mps.dtypes import FLOATS, NUMBERS
from delegatec.backends.mps.operators.elementwise.elementary import number, power
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind, broadcast
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of, shape_of

_LARGEST_PRODUCT: Final = 32
"""Beyond this exponent the roundings of the products add up to more than those of a power."""


def raised(x: Expression, exponent: Expression) -> Expression:
    """The runtime's Pow, of a base that is not negative."""
    shape = broadcast(x.shape, exponent.shape)
    out = x.builder.temporary(shape, x.dtype)
    x.builder.emit(Operation.Pow, BinaryT(input1Id=x.id, input2Id=exponent.id, outputId=out))
    return Expression(x.builder, out)


def _signed(x: Expression, exponent: Expression) -> Expression:
    """Of any base: NaN for a negative one and a fraction; the sign of the base for odd exponents."""
    size = raised(x.unary(Operation.Abs), exponent)
    is_odd = (exponent - (exponent * 0.5).unary(Operation.Floor) * 2.0).compare(Operation.Eq, 1.0)
    is_fraction = exponent.compare(Operation.Ne, exponent.unary(Operation.Floor))
    negative = is_fraction.where(number(x, math.nan), is_odd.where(-size, size))
    return x.compare(Operation.Lt, 0.0).where(negative, size)


def float_power(x: Expression, exponent: float) -> Expression:
    """Any power that is a number of the program, of floats."""
    roots = {0.5: Operation.Sqrt, -0.5: Operation.Rsqrt, -1.0: Operation.Reciprocal}
    if exponent == 0.0:
        return full(x.builder, x.shape, 1.0, x.dtype)
    if exponent in roots:
        return x.unary(roots[exponent])
    if exponent.is_integer() and abs(exponent) <= _LARGEST_PRODUCT:
        product = power(x, int(abs(exponent)))
        return product if exponent > 0 else product.unary(Operation.Reciprocal)
    size = raised(x.unary(Operation.Abs), number(x, exponent))
    if not exponent.is_integer():
        return (x.compare(Operation.Lt, 0.0)).where(number(x, math.nan), size)
    return x.compare(Operation.Lt, 0.0).where(-size, size) if exponent % 2 else size


def _by_number(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    x, exponent = operand(b, bound["self"], dtype), bound["exponent"]
    if dtype in FLOATS:
        result = float_power(x, float(exponent))
    else:
        result = power(x, exponent) if exponent else full(b, shape_of(node), 1, dtype)
    result.bind(node)


def _of_number(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    base, exponent = float(bound["self"]), operand(b, bound["exponent"], dtype)
    if base == 2.0:
        result = exponent.unary(Operation.Exp2)
    elif base > 0:
        result = raised(number(exponent, base), exponent)
    else:
        result = _signed(full(b, exponent.shape, base, dtype), exponent)
    result.bind(node)


def _of_tensors(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    _signed(operand(b, bound["self"], dtype), operand(b, bound["exponent"], dtype)).bind(node)


def _exponent(node: Node, _: object) -> str | None:
    exponent = bind(node)["exponent"]
    if dtype_of(node) in FLOATS or exponent >= 0:
        return None
    return f"exponent is {exponent}"


_FLOAT_RESULT: Final = result_dtypes(
    FLOATS, "MPSGraph raises to the power of a tensor in floating point only.", "convert to float32"
)
_SIGNED: Final = ("Pow", "Abs", "Mul", "Floor", "Sub", "Eq", "Ne", "Neg", "Lt", "Where")

ROWS: Final = (
    OperatorRow(
        overload("pow.Tensor_Scalar"),
        ("Mul", "Sqrt", "Rsqrt", "Reciprocal", "Full", "Pow", "Abs", "Neg", "Lt", "Where"),
        _by_number,
        (
            result_dtypes(NUMBERS, "MPSGraph has no arithmetic on bool.", "convert to int32"),
            Constraint("argument", "The exponent of an integer is not negative.", _exponent),
        ),
        note="products where the exponent is an integer of at most 32",
    ),
    OperatorRow(overload("pow.Scalar"), ("Exp2", "Pow", *_SIGNED[1:], "Full"), _of_number, (_FLOAT_RESULT,)),
    OperatorRow(
        overload("pow.Tensor_Tensor"),
        _SIGNED,
        _of_tensors,
        (_FLOAT_RESULT,),
        note="of the absolute value of the base, whose sign is put back: what MPSGraph makes of a negative "
        "one is not documented",
    ),
)
