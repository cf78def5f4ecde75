# SPDX-License-Identifier: Apache-2.0
"""Division with a rounded quotient, and what is left over.

The runtime rounds the quotient of two floats, which is an integer already where the true one is just below
it: it floors 1 / 0.1 to 10 where ATen, whose remainder is exact, gives 9. So what is left over is computed
from a divisor in two halves, whose products with the quotient are exact, and the quotient is put right where
that has the wrong sign. Integers do not go through float32, as they would with a rounding mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import torch
from delegatec_schemas.mps_graph import DivisionT, Operation
from torch.fx import Node

from delegatec.backends.common.constants import FLOAT32_MAX
from delegatec.backends.common.row import overload, variants
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.dtypes import FLOATS, NUMBERS
from delegatec.backends.mps.operators.elementwise.elementary import absolute, is_infinite, number, truncated
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind, broadcast
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.nodes import dtype_of

_BITS: Final = 24
"""Of the significand of a float32, in which all of this is computed."""
_EXACT: Final = 2.0 ** (_BITS // 2)
"""Below it, a quotient times half of the digits of a divisor is exact."""
_HUGE: Final = 2.0**100
"""Below it, a divisor can be taken apart without overflow."""

Divide = Callable[[Expression, Expression, float | None], Expression]
"""Dividend, divisor, and the divisor's value if it is a number of the program."""


def _divided(first: Expression, second: Expression, operation: int, mode: str | None) -> Expression:
    shape = broadcast(first.shape, second.shape)
    out = first.builder.temporary(shape, first.dtype)
    table = DivisionT(input1Id=first.id, input2Id=second.id, outputId=out, roundingMode=mode)
    first.builder.emit(operation, table)
    return Expression(first.builder, out)


# ---- integers --------------------------------------------------------------------------------------------


def _integer_floor(x: Expression, y: Expression, _: float | None) -> Expression:
    """MPSGraph's division truncates; the correction is one of a division that floors as well: none."""
    quotient = x / y
    rest = x - quotient * y
    is_beyond = (rest ^ y).compare(Operation.Lt, 0) & rest.compare(Operation.Ne, 0)
    return is_beyond.where(quotient - 1, quotient)


def _integer_remainder(x: Expression, y: Expression, value: float | None) -> Expression:
    return x - _integer_floor(x, y, value) * y


def _integer_fmod(x: Expression, y: Expression, _: float | None) -> Expression:
    return x - x / y * y


# ---- floating point --------------------------------------------------------------------------------------


def _is_exact(value: float | None) -> bool:
    """Whether it is a power of two, by which a division rounds nothing."""
    return value is not None and 2.0**-24 <= abs(value) <= 2.0**24 and math.frexp(abs(value))[0] == 0.5


def _halves(y: Expression, value: float | None) -> tuple[Expression, Expression | None]:
    """A divisor as the sum of two numbers of half as many digits; the second is None if the first is it.

    Of infinity they are zero, so that nothing of a finite dividend is taken off.
    """
    if value is None:
        finite = is_infinite(y).where(number(y, 0.0), y)
        carry = y * (2.0 ** (_BITS // 2) + 1.0)
        high = absolute(y).compare(Operation.Lt, _HUGE).where(carry - (carry - y), finite)
        return high, finite - high
    fraction, exponent = math.frexp(value)
    upper = math.ldexp(round(math.ldexp(fraction, _BITS // 2)), exponent - _BITS // 2)
    low = value - upper
    return number(y, upper), number(y, low) if low else None


def _step(x: Expression, y: Expression, value: float | None) -> tuple[Expression, Expression]:
    """Quotient and rest of numbers without signs; exact for quotients below _EXACT."""
    quotient = (x / y).unary(Operation.Floor)
    high, low = _halves(y, value)
    rest = x - quotient * high
    if low is not None:
        rest = rest - quotient * low
    is_wrong = rest.compare(Operation.Lt, 0.0)
    return is_wrong.where(quotient - 1.0, quotient), is_wrong.where(rest + y, rest)


def _sizes(x: Expression, y: Expression, value: float | None) -> tuple[Expression, Expression]:
    """Quotient and rest of |x| and |y|, first of a multiple of it; exact below the square of _EXACT."""
    x = absolute(x)
    if value is None:
        y, multiple = absolute(y), None
        upper, rest = _step(x, y * _EXACT, None)
    else:
        value = abs(value)
        y, multiple = number(y, value), value * _EXACT
        if multiple > FLOAT32_MAX:
            return _step(x, y, value)
        upper, rest = _step(x, number(y, multiple), multiple)
    lower, rest = _step(rest, y, value)
    return upper * _EXACT + lower, rest


def _floored(x: Expression, y: Expression, value: float | None) -> tuple[Expression, Expression]:
    """The quotient rounded down, and what is left over, of the sign of the divisor."""
    quotient, rest = _sizes(x, y, value)
    is_minus = x.compare(Operation.Lt, 0.0)
    rest = is_minus.where(-rest, rest)
    if value is None:
        is_opposite = is_minus ^ y.compare(Operation.Lt, 0.0)
        is_beyond = is_opposite & rest.compare(Operation.Ne, 0.0)
    else:
        is_opposite = is_minus if value > 0 else x.compare(Operation.Gt, 0.0)
        is_beyond = rest.compare(Operation.Lt if value > 0 else Operation.Gt, 0.0)
    quotient = is_opposite.where(-quotient, quotient)
    return is_beyond.where(quotient - 1.0, quotient), is_beyond.where(rest + y, rest)


def _floor(x: Expression, y: Expression, value: float | None) -> Expression:
    if _is_exact(value):
        return _divided(x, y, Operation.Div, "floor")
    quotient, _ = _floored(x, y, value)
    # Of infinity nothing is left over that is a number, so that ATen has no quotient; by zero it divides.
    quotient = is_infinite(x).where(number(x, math.nan), quotient)
    return quotient if value is not None else y.compare(Operation.Eq, 0.0).where(x / y, quotient)


def _truncated(x: Expression, y: Expression, _: float | None) -> Expression:
    """The runtime stops at a quotient of float16 that is to be truncated."""
    if x.dtype == torch.float16:
        return truncated(x / y)
    return _divided(x, y, Operation.Div, "trunc")


def _remainder(x: Expression, y: Expression, value: float | None) -> Expression:
    return _divided(x, y, Operation.Remainder, "floor") if _is_exact(value) else _floored(x, y, value)[1]


def _fmod(x: Expression, y: Expression, value: float | None) -> Expression:
    """Of the sign of the dividend."""
    if _is_exact(value):
        return _divided(x, y, Operation.Fmod, "trunc")
    _, rest = _sizes(x, y, value)
    return x.compare(Operation.Lt, 0.0).where(-rest, rest)


def division(integers: Divide, floats: Divide, in_float32: bool = True) -> Lower:
    """A row's lowering; floats are divided in float32, as ATen does float16, unless it does not."""

    def lower(b: GraphBuilder, node: Node) -> None:
        first, second, *_ = bind(node).values()
        dtype = dtype_of(node)
        value = None if isinstance(second, Node) else float(second)
        if dtype not in FLOATS:
            integers(operand(b, first, dtype), operand(b, second, dtype), value).bind(node)
            return
        if value is not None:
            value = torch.tensor(value).to(dtype).item()
            value = value if value and math.isfinite(value) else None
        x, y = operand(b, first, dtype), operand(b, second, dtype)
        if in_float32:
            x, y = x.to(torch.float32), y.to(torch.float32)
        floats(x, y, value).to(dtype).bind(node)

    return lower


_LOWERINGS: Final[dict[str, Lower]] = {
    "floor": division(_integer_floor, _floor),
    "trunc": division(lambda x, y, _: x / y, _truncated, in_float32=False),
    "remainder": division(_integer_remainder, _remainder),
    "fmod": division(_integer_fmod, _fmod),
}


def _true(b: GraphBuilder, node: Node) -> None:
    """With fp16, integers beyond that are divided in float32."""
    first, second, *_ = bind(node).values()
    are_floats = any(isinstance(o, Node) and dtype_of(o) in FLOATS for o in (first, second))
    dtype = dtype_of(node) if are_floats or not b.halves(dtype_of(node)) else torch.float32
    (operand(b, first, dtype) / operand(b, second, dtype)).to(dtype_of(node)).bind(node)


def _moded(b: GraphBuilder, node: Node) -> None:
    mode = bind(node)["rounding_mode"]
    (_true if mode is None else _LOWERINGS[mode])(b, node)


_NUMBERS: Final = result_dtypes(NUMBERS, "MPSGraph has no arithmetic on bool.", "convert to int32")
_FLOORED: Final = "Div Floor Mul Sub Abs Neg Add Lt Gt Ne Eq Isinf BitwiseXor BitwiseAnd Where"
_NOTE: Final = (
    "exact for quotients below 2^24, where the runtime's would be off by one or have the wrong sign; "
    "integers are divided as such: that MPSGraph truncates then is not documented, and only trunc and fmod "
    "rest on it"
)


def _rows(names: Iterable[str], operations: str, lower: Lower, note: str = "") -> list[OperatorRow]:
    return [OperatorRow(overload(n), tuple(operations.split()), lower, (_NUMBERS,), note=note) for n in names]


ROWS: Final = (
    *_rows(variants({"div": ""}, "Tensor", "Scalar"), "Div", _true),
    *_rows(variants({"div": ""}, "Tensor_mode", "Scalar_mode"), f"{_FLOORED} Ceil", _moded, _NOTE),
    *_rows(["floor_divide"], _FLOORED, _LOWERINGS["floor"], _NOTE),
    *_rows(
        variants({"remainder": ""}, "Tensor", "Scalar", "Scalar_Tensor"),
        f"Remainder {_FLOORED}",
        _LOWERINGS["remainder"],
        _NOTE,
    ),
    *_rows(variants({"fmod": ""}, "Tensor", "Scalar"), f"Fmod {_FLOORED}", _LOWERINGS["fmod"], _NOTE),
)
