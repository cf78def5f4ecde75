# SPDX-License-Identifier: Apache-2.0
"""Floor division, remainder and fmod, for targets that round the quotient of floats.

A quotient just below an integer may round up to it: 1 / 0.1 rounds to 10, and ATen, whose remainder is exact,
floors it to 9. So the divisor is split into a high and a low half, whose products with the quotient are
exact, and the quotient is corrected if the remainder has the wrong sign. Integers are not converted to
floating point; the rules only require that the target's integer division truncates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import result_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.arithmetic import scalar_overload
from delegatec.edge.legalize.rules.integer_moves import is_exact
from delegatec.edge.legalize.rules.pointwise import NUMERIC_RESULT
from delegatec.edge.legalize.value import Value, value_of
from delegatec.edge.symbols import is_scalar

aten = torch.ops.aten

Compute = Callable[..., Value]

_BITS: Final = 24
"""Bits in the significand of float32, the dtype of the computation."""
_EXACT: Final = 2.0 ** (_BITS // 2)
"""Upper bound of quotients whose product with half of a divisor's bits is exact."""
_HUGE: Final = 2.0**100
"""Upper bound of divisors that can be split without overflow."""
_ABOVE: Final = 1.0 + 2.0**-22
"""Exceeds the rounding errors of a quotient, also of a product with the reciprocal."""
_INTEGRAL: Final = 2.0**23
"""The smallest magnitude from which on floats are integers."""
_LARGEST: Final = torch.finfo(torch.float32).max


# ---- integers --------------------------------------------------------------------------------------------


def _integer_floor(x: Value, y: Value) -> Value:
    """Corrects the truncated quotient; the quotient of a target that floors is not changed."""
    quotient = x.truncated_quotient(y)
    rest = x - quotient * y
    is_beyond = (rest ^ y).lt(0) & rest.ne(0)
    return is_beyond.where(quotient - 1, quotient)


def _integer_remainder(x: Value, y: Value) -> Value:
    return x - _integer_floor(x, y) * y


def _integer_fmod(x: Value, y: Value) -> Value:
    return x - x.truncated_quotient(y) * y


# ---- floating point --------------------------------------------------------------------------------------


def _split(y: Value | float) -> tuple[Value | float, Value | float]:
    """Splits a divisor into the sum of two floats with half of its bits each; infinity into zeros."""
    if isinstance(y, Value):
        finite = y.isinf().where(0.0, y)
        carry = y * (2.0 ** (_BITS // 2) + 1.0)
        high = y.abs().lt(_HUGE).where(carry - (carry - y), finite)
        return high, finite - high
    fraction, exponent = math.frexp(y)
    upper = math.ldexp(round(math.ldexp(fraction, _BITS // 2)), exponent - _BITS // 2)
    return upper, y - upper


def _divided_once(x: Value, y: Value | float) -> tuple[Value, Value]:
    """Returns quotient and remainder of nonnegative values; exact for quotients below _EXACT."""
    quotient = (x / y * _ABOVE).floor()
    high, low = _split(y)
    rest = x - quotient * high
    if low != 0.0:
        rest = rest - quotient * low
    is_wrong = rest.lt(0.0)
    return is_wrong.where(quotient - 1.0, quotient), is_wrong.where(rest + y, rest)


def magnitudes(x: Value, y: Value | float) -> tuple[Value, Value]:
    """Returns quotient and remainder of |x| and |y|, in two steps; exact for quotients below _EXACT^2."""
    x, y = x.abs(), y.abs() if isinstance(y, Value) else abs(y)
    if not isinstance(y, Value) and math.isinf(y):
        rest = x.isinf().where(math.nan, x)
        return rest * 0.0, rest
    multiple = y * _EXACT
    if not isinstance(multiple, Value) and multiple > _LARGEST:
        return _divided_once(x, y)
    upper, rest = _divided_once(x, multiple)
    lower, rest = _divided_once(rest, y)
    return upper * _EXACT + lower, rest


def _floored(x: Value, y: Value | float) -> tuple[Value, Value]:
    """Returns the floored quotient, and the remainder with the sign of the divisor."""
    quotient, rest = magnitudes(x, y)
    is_minus = x.lt(0.0)
    rest = is_minus.where(-rest, rest)
    if isinstance(y, Value):
        is_opposite = is_minus ^ y.lt(0.0)
        is_beyond = is_opposite & rest.ne(0.0)
    else:
        is_opposite, is_beyond = (is_minus, rest.lt(0.0)) if y > 0 else (x.gt(0.0), rest.gt(0.0))
    quotient = is_opposite.where(-quotient, quotient)
    return is_beyond.where(quotient - 1.0, quotient), is_beyond.where(rest + y, rest)


def is_power_of_two(y: object) -> bool:
    """Whether a divisor is a scalar by which float32 is divided exactly, unless the quotient underflows."""
    return isinstance(y, int | float) and 2.0**-24 <= abs(y) <= 2.0**24 and math.frexp(abs(y))[0] == 0.5


def _floor(x: Value, y: Value | float) -> Value:
    # The remainder of infinity is NaN, and so is ATen's quotient; ATen divides by zero.
    quotient = (x / y).floor() if is_power_of_two(y) else _floored(x, y)[0]
    quotient = x.isinf().where(math.nan, quotient)
    return y.eq(0.0).where(x / y, quotient) if isinstance(y, Value) else quotient


def _remainder(x: Value, y: Value | float) -> Value:
    return _floored(x, y)[1]


def _fmod(x: Value, y: Value | float) -> Value:
    """Returns the remainder with the sign of the dividend."""
    _, rest = magnitudes(x, y)
    return x.lt(0.0).where(-rest, rest)


# ---- normal form -----------------------------------------------------------------------------------------


def _floored_remainder(b: Builder, node: Node) -> Node | None:
    """Computes the remainder with the sign of the divisor; the runtime's kernel returns that of C."""
    if dtype_of(node).is_floating_point or dtype_of(node) is torch.uint8:
        return None
    a = bind(node)
    quotient = b.call(aten.div.Tensor_mode, a["self"], a["other"], rounding_mode="floor")
    return b.call(aten.sub.Tensor, a["self"], b.call(aten.mul.Tensor, quotient, a["other"]))


def _remainder_of_scalar(b: Builder, node: Node) -> Node:
    """Divides a tensor of one element: no kernel divides a scalar."""
    bound, dtype = bind(node), dtype_of(node)
    dividend, divisor = (value_of(b, bound[name], dtype) for name in ("self", "other"))
    return b.call(aten.remainder.Tensor, dividend.node, divisor.node)


def _floored_quotient(b: Builder, node: Node) -> Node | None:
    """Makes a size a tensor of one element: no kernel rounds a quotient of a dynamic scalar down."""
    bound, dtype = bind(node), dtype_of(node)
    operands = bound["self"], bound["other"]
    if not any(isinstance(each, Node) and is_scalar(each) for each in operands):
        return None
    dividend, divisor = (value_of(b, each, dtype) for each in operands)
    return b.call(aten.div.Tensor_mode, dividend.node, divisor.node, rounding_mode="floor")


def _quotient_with_mode(b: Builder, node: Node) -> Node | None:
    if node.kwargs["rounding_mode"] == "floor" and (floored := _floored_quotient(b, node)):
        return floored
    return _SCALAR_MODE(b, node) if node.target is aten.div.Tensor_mode else None


_SCALAR_MODE: Final = scalar_overload(aten.div.Scalar_mode)


# ---- on nodes --------------------------------------------------------------------------------------------


def _division(integers: Compute, floats: Compute, rounds_scalars: bool = True) -> Rule:
    """Returns a rule for integers and for floats, which are divided in float32, like float16 in ATen.

    Args:
        integers: function of dividend and divisor.
        floats: function of dividend and divisor.
        rounds_scalars: whether ATen rounds a scalar to float16 if the other operand is float16.
    """

    def rule(builder: Builder, node: Node) -> Node:
        dtype = dtype_of(node)
        if dtype.is_floating_point and dtype != torch.float32:
            target: Any = node.target
            narrow = dtype if rounds_scalars else torch.float32
            wide = [
                value_of(builder, each, torch.float32).node
                if isinstance(each, Node)
                else _rounded_to(each, narrow)
                for each in node.args
            ]
            return Value(builder, builder.call(target, *wide, **node.kwargs)).to(dtype).node
        first, second, *_ = bind(node).values()
        x = value_of(builder, first, dtype)
        if not dtype.is_floating_point:
            return integers(x, value_of(builder, second, dtype)).node
        scalar = 0.0 if isinstance(second, Node) else _rounded_to(second, dtype)
        is_divisor = scalar and not math.isnan(scalar)
        return floats(x, scalar if is_divisor else value_of(builder, second, dtype)).node

    return rule


def _rounded_to(value: Any, dtype: torch.dtype) -> float:
    return torch.tensor(value, dtype=torch.float64).to(dtype).item()


_INTEGERS: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _integers_by_remainder(builder: Builder, node: Node) -> Node | None:
    """Divides a multiple of the divisor, whose quotient is an integer: the rest of each step is smaller."""
    bound, dtype = bind(node), dtype_of(node)
    mode, second = bound.get("rounding_mode", "floor"), bound["other"]
    if mode is None:
        return None
    x, y = (value_of(builder, each, dtype) for each in (bound["self"], second))
    divisor = y.to(torch.float32) if isinstance(second, Node) else float(second)
    if is_exact(builder.facts, x.node) and is_exact(builder.facts, y.node):
        quotient = x.to(torch.float32) / divisor
        quotient = quotient.floor() if mode == "floor" else quotient.trunc()
        # the quotient of the lowest integer and -1 wraps around
        return (quotient if dtype.itemsize > 4 else quotient.to(torch.int32)).to(dtype).node
    rest = Value(builder, builder.call(aten.remainder.Tensor, x.node, y.node))
    is_opposite = rest.ne(0) & (x.lt(0) ^ y.lt(0))
    # the multiple that is nearer to zero, which does not overflow
    left = x - is_opposite.where(rest - y, rest)
    found = part = (left.to(torch.float32) / divisor).round().to(dtype)
    for _ in range(2 if dtype == torch.int64 else 1):
        left = left - part * y
        part = (left.to(torch.float32) / divisor).round().to(dtype)
        found = found + part
    return (found - is_opposite.to(dtype) if mode == "floor" else found).node


_FLOOR: Final = _division(_integer_floor, _floor, rounds_scalars=False)


def _with_mode(builder: Builder, node: Node) -> Any:
    bound, dtype = bind(node), dtype_of(node)
    mode = bound["rounding_mode"]
    if mode == "floor":
        return _FLOOR(builder, node)
    if not dtype.is_floating_point:
        return None
    quotient = value_of(builder, bound["self"], dtype) / value_of(builder, bound["other"], dtype)
    return (quotient if mode is None else quotient.trunc()).node


def _rounded_and_truncated(builder: Builder, node: Node) -> Node | None:
    """Truncates the quotient in the dtype, which may be rounded to the integer above it.

    The product with a reciprocal has another rounding: that of x and 1 / x may be below one.
    """
    bound, dtype = bind(node), dtype_of(node)
    if bound["rounding_mode"] != "trunc" or not dtype.is_floating_point:
        return None
    x, y = (value_of(builder, bound[name], dtype).widened() for name in ("self", "other"))
    size, quotient = y.abs(), x / y
    if dtype != torch.float32:
        return quotient.to(dtype).trunc().node
    integral, rest = magnitudes(x, y)
    integral = (integral + rest / size).floor()
    is_exact = quotient.abs().lt(_INTEGRAL) & size.lt(math.inf)
    signed = quotient.lt(0.0).where(-integral, integral)
    return is_exact.where(signed, quotient.trunc()).to(dtype).node


_NOTE: Final = (
    "in float32, exact for quotients below 2^24, where a rounded quotient may be off by one; from the "
    "truncated quotient for integers"
)

RULES: RuleTable = {
    aten.div.Scalar_mode: _quotient_with_mode,
    aten.div.Tensor_mode: _quotient_with_mode,
    aten.floor_divide.default: _floored_quotient,
    aten.remainder.Scalar: _floored_remainder,
    aten.remainder.Scalar_Tensor: _remainder_of_scalar,
    aten.remainder.Tensor: _floored_remainder,
}

REWRITES: Final = tuple(
    Rewrite(target, rule, (NUMERIC_RESULT,), note=_NOTE)
    for rule, targets in (
        (_with_mode, (aten.div.Tensor_mode, aten.div.Scalar_mode)),
        (_FLOOR, (aten.floor_divide.default,)),
        (_division(_integer_remainder, _remainder), (aten.remainder.Tensor, aten.remainder.Scalar)),
        (_division(_integer_fmod, _fmod), (aten.fmod.Tensor, aten.fmod.Scalar)),
    )
    for target in targets
)

BY_REMAINDER: Final = tuple(
    Rewrite(
        target,
        _integers_by_remainder,
        (result_dtypes(_INTEGERS, "it is for integers."),),
        note="of integers, by the exact remainder: a quotient of float32, corrected once or twice",
    )
    for target in (aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default)
)
"""For targets with a remainder of integers, which is exact, and a division of floats only."""

TRUNCATED: Final = tuple(
    Rewrite(target, _rounded_and_truncated, note="of the rounded quotient")
    for target in (aten.div.Tensor_mode, aten.div.Scalar_mode)
)
