# SPDX-License-Identifier: Apache-2.0
"""Operators of one element and its like: functions, arithmetic, comparisons, selection.

float16 textures are computed in float32, and rounded when stored; float16 buffers in float16, but for
functions of one operand. Differences from ATen are the shaders': `eq` has a tolerance of 1e-5, `gelu` is the
approximation by tanh, integers go through float32 where a shader has a float parameter, and integer division
rounds to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch

from delegatec.backends.vulkan.reference.call import Call, as_float32, same_packed
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import Tensor, reject

Value = torch.Tensor
_INTEGERS: Final = (torch.int32, torch.int8, torch.uint8)


def wide(x: Value) -> Value:
    """Returns float16 as float32, to compute in."""
    return x.float() if x.dtype == torch.float16 else x


def to_integers(run: Run, x: Value, what: str) -> Value:
    """Converts floats to int32, as the shaders' conversion does."""
    limits = torch.iinfo(torch.int32)
    whole = x.double().trunc()
    outside = ~((whole >= limits.min) & (whole <= limits.max))
    choice = run.unspecified.choose("integers", lambda: outside, f"{what} that int32 cannot hold")
    inside = whole.nan_to_num(0.0).clamp(limits.min, limits.max).to(torch.int32)
    return inside if choice == "saturate" else torch.where(outside, limits.min, inside)


def broadcast(name: str, *tensors: Tensor) -> list[int]:
    """Returns the broadcast shape of tensors."""
    rank = max(tensor.dim for tensor in tensors)
    result = [1] * rank
    for tensor in tensors:
        for place, size in enumerate(tensor.sizes, rank - tensor.dim):
            if size != 1 and result[place] not in (1, size):
                reject(f"{name} of {' and '.join(map(str, tensors))}, which do not broadcast")
            result[place] = max(result[place], size)
    return result


# ---- functions of one operand ----


def _gelu(x: Value) -> Value:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / 3.141593) * (x + 0.044715 * x * x * x)))


def _hard_sigmoid(x: Value) -> Value:
    return torch.where(x.abs() <= 3, x / 6 + 0.5, (x >= 0).to(x.dtype))


def _hard_swish(x: Value) -> Value:
    return torch.where(x <= -3, 0.0, torch.where(x >= 3, x, x * (x + 3) / 6))


_FUNCTIONS: Final[dict[str, Callable[[Value], Value]]] = {
    "abs": torch.abs,
    "cos": torch.cos,
    "exp": torch.exp,
    "gelu": _gelu,
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    "neg": torch.neg,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "sin": torch.sin,
    "sqrt": torch.sqrt,
    "tan": torch.tan,
    "tanh": torch.tanh,
}


def _unary(run: Run, call: Call, kernel: str, result: int, function: Callable[[Value], Value]) -> None:
    x, out = call.tensor(0), call.tensor(result)
    run.kernel(kernel_name(kernel, out, dtype_first=True), out, x)
    same_packed(call.name, x, out)
    value = function(run.read(x).float())
    if out.dtype in _INTEGERS:
        value = to_integers(run, value, call.name)
    run.write(out, value)


def _function(name: str, result: int = 1) -> Semantics:
    return lambda run, call: _unary(run, call, name, result, _FUNCTIONS[name])


def _round(run: Run, call: Call) -> None:
    def rounded(x: Value) -> Value:
        ties = (x - x.trunc()).abs() == 0.5
        if run.unspecified.choose("rounding", lambda: ties, "round of x.5") == "away":
            return torch.where(ties, x + x.sign() * 0.5, x.round())
        return x.round()

    _unary(run, call, "round", 1, rounded)


def clamp(run: Run, x: Value, low: float, high: float) -> Value:
    """Clamps as GLSL does."""
    if low > high:
        reject(f"a clamp to [{low}, {high}] is undefined")
    missing = x.isnan()
    choice = run.unspecified.choose("nan", lambda: missing, "a clamp of NaN")
    clamped = x.clamp(low, high)
    return torch.where(missing, low, clamped) if choice == "other" else clamped


def _clamp(run: Run, call: Call) -> None:
    low = -math.inf if call.is_none(1) else call.float(1)
    high = math.inf if call.is_none(2) else call.float(2)
    _unary(run, call, "clamp", 3, lambda x: clamp(run, x, low, high))


def _relu(high: float) -> Semantics:
    return lambda run, call: _unary(run, call, "clamp", 1, lambda x: clamp(run, x, 0.0, high))


def _hard_shrink(run: Run, call: Call) -> None:
    high = -math.inf if call.is_none(1) else call.float(1)
    low = -math.inf if call.is_none(1) else -high
    _unary(run, call, "hardshrink", 2, lambda x: x * ((x > high).float() + (x < low).float()))


def _leaky_relu(run: Run, call: Call) -> None:
    slope = -math.inf if call.is_none(1) else call.float(1)
    _unary(run, call, "leaky_relu", 2, lambda x: x * ((x > 0).float() + slope * (x <= 0).float()))


def _bitwise_not(run: Run, call: Call) -> None:
    """Returns 1 - x: the complement of a truth value."""
    x, out = call.tensor(0), call.tensor(1)
    run.kernel(kernel_name("bitwise_not", out, dtype_first=True), out, x)
    same_packed(call.name, x, out)
    run.write(out, 1 - run.read(x).to(torch.uint8))


# ---- functions of two operands ----


def _power(run: Run, x: Value, y: Value) -> Value:
    x, y = x.float(), y.float()
    odd = (x < 0) | ((x == 0) & (y <= 0))
    choice = run.unspecified.choose("powers", lambda: odd, "pow of a negative number, or of 0 to 0 or below")
    value = torch.pow(x.abs(), y)
    return value if choice == "magnitude" else torch.where((x < 0) | ((x == 0) & (y == 0)), math.nan, value)


def _divided(run: Run, x: Value, y: Value) -> Value:
    if x.dtype not in _INTEGERS:
        return x / y
    zero = y == 0
    run.unspecified.choose("integers", lambda: zero, "division of an integer by zero")
    return torch.where(zero, -1, torch.div(x, torch.where(zero, 1, y), rounding_mode="trunc"))


def _minimum(run: Run, x: Value, y: Value) -> Value:
    missing = x.isnan() | y.isnan()
    if run.unspecified.choose("nan", lambda: missing, "minimum of NaN") == "other":
        return torch.fmin(x, y)
    return torch.minimum(x, y)


def _equal(run: Run, x: Value, y: Value) -> Value:
    return (x - y).abs() < as_float32(1e-5)


_BINARY: Final[dict[str, Callable[[Run, Value, Value], Value]]] = {
    "mul": lambda run, x, y: x * y,
    "div": _divided,
    "floor_divide": lambda run, x, y: _divided(run, x, y).floor(),
    "pow": _power,
    "minimum": _minimum,
    "eq": _equal,
    "lt": lambda run, x, y: x < y,
    "le": lambda run, x, y: x <= y,
    "gt": lambda run, x, y: x > y,
    "ge": lambda run, x, y: x >= y,
    "bitwise_and": lambda run, x, y: x & y,
    "bitwise_or": lambda run, x, y: x | y,
}


def _operands(run: Run, call: Call, kernel: str, out: Tensor) -> tuple[Value, Value]:
    x, y = call.tensor_like(0, out), call.tensor_like(1, out)
    run.kernel("_".join(["binary", kernel, out.storage, x.shader_dtype]), out, x, y)
    same_packed(call.name, x, y, out)
    broadcast(call.name, x, y)
    left, right = run.read(x), run.read(y)
    if out.is_buffer:
        return left, right
    return wide(left), wide(right)


def _binary(name: str, result: int = 2) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        out = call.tensor(result)
        left, right = _operands(run, call, name, out)
        value = _BINARY[name](run, left, right)
        if out.dtype in _INTEGERS and value.is_floating_point():
            value = to_integers(run, value, call.name)
        run.write(out, value)

    return semantics


def _sum(kernel: str, sign: float) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        out = call.tensor(3)
        left, right = _operands(run, call, kernel, out)
        alpha = sign * call.float(2)
        if out.dtype not in _INTEGERS:
            value = left + right * torch.tensor(alpha, dtype=right.dtype)
        elif out.is_buffer:
            value = left + right * int(alpha)
        else:
            # alpha is a float, which makes all of it floats
            value = to_integers(run, left.float() + right.float() * alpha, call.name)
        run.write(out, value)

    return semantics


def _scalar(kernel: str, function: Callable[[Run, Value, float], Value]) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(2)
        number = call.number(1)
        integers = x.dtype in _INTEGERS and not isinstance(number, float)
        scalar = "int32" if integers else "float"
        run.kernel("_".join([kernel + "_scalar", out.storage, x.shader_dtype, scalar]), out, x)
        same_packed(call.name, x, out)
        value = function(run, wide(run.read(x)), int(number) if integers else call.float(1))
        if out.dtype in _INTEGERS and value.is_floating_point():
            value = to_integers(run, value, call.name)
        run.write(out, value)

    return semantics


def _scalar_power(run: Run, x: Value, y: float) -> Value:
    value = torch.pow(x.float().abs(), y)
    whole = round(y)
    # A remainder has the sign of its dividend in the shader, and is compared with 1.
    if abs(y - whole) < 1e-5 and math.fmod(whole, 2) == 1:
        value = torch.where(x < 0, -value, value)
    return torch.where(x == 0, 1.0 if y == 0 else 0.0, value)


def _scalar_equal(run: Run, x: Value, y: float) -> Value:
    return x == y if isinstance(y, int) else x.float() == y


def _where(run: Run, call: Call) -> None:
    condition, x, y = call.tensor(0), call.tensor(1), call.tensor(2)
    out = call.tensor(3)
    run.kernel(kernel_name("where", out), out, condition, x, y)
    broadcast(call.name, condition, x, y)
    run.write(out, torch.where(run.read(condition) > 0, run.read(x), run.read(y)))


_COMPARISONS: Final = ("eq", "lt", "le", "gt", "ge")


def _operators() -> Sequence[tuple[str, Semantics]]:
    plain = [(f"aten.{name}.default", _function(name)) for name in _FUNCTIONS if name != "gelu"]
    tensors = [
        (f"aten.{name}.Tensor", _binary(name)) for name in ("mul", "div", "eq", "lt", "le", "gt", "ge")
    ]
    bits = [
        (f"aten.{prefix}_{name}", _binary(f"bitwise_{name.split('.')[0]}"))
        for prefix, kind in (("bitwise", "Tensor"), ("logical", "default"))
        for name in (f"and.{kind}", f"or.{kind}")
    ]
    return [*plain, *tensors, *bits]


SEMANTICS: Final[dict[str, Semantics]] = {
    **dict(_operators()),
    "aten.add.Tensor": _sum("add", 1.0),
    "aten.sub.Tensor": _sum("sub", -1.0),
    "aten.div.Tensor_mode": _binary("floor_divide", 3),
    "aten.pow.Tensor_Tensor": _binary("pow"),
    "aten.minimum.default": _binary("minimum"),
    "aten.pow.Tensor_Scalar": _scalar("pow", _scalar_power),
    "aten.eq.Scalar": _scalar("eq", _scalar_equal),
    "aten.where.self": _where,
    "aten.clamp.default": _clamp,
    "aten.hardtanh.default": _clamp,
    "aten.relu.default": _relu(math.inf),
    "aten.relu6.default": _relu(6.0),
    "aten.hardshrink.default": _hard_shrink,
    "aten.leaky_relu.default": _leaky_relu,
    "aten.round.default": _round,
    "aten.bitwise_not.default": _bitwise_not,
    "aten.gelu.default": _function("gelu", 2),
}
