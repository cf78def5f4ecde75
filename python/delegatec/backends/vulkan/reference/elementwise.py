# SPDX-License-Identifier: Apache-2.0
"""Functions of two operands: arithmetic, comparisons, selection.

float16 textures are computed in float32, and rounded when stored; float16 buffers in float16. Differences
from ATen are the shaders': `eq` has a tolerance of 1e-5, integers go through float32 where a shader has a
float parameter, and integer division rounds toward zero.
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
INTEGERS: Final = (torch.int32, torch.int8, torch.uint8)


def wide(x: Value) -> Value:
    """Returns float16 as float32, to compute in."""
    return x.float() if x.dtype == torch.float16 else x


def to_integers(run: Run, x: Value, what: str) -> Value:
    """Converts floats to int32, as the shaders' conversion does."""
    limits = torch.iinfo(torch.int32)
    integral = x.double().trunc()
    outside = ~((integral >= limits.min) & (integral <= limits.max))
    choice = run.unspecified.choose("integers", lambda: outside, f"{what} that int32 cannot hold")
    inside = integral.nan_to_num(0.0).clamp(limits.min, limits.max).to(torch.int32)
    return inside if choice == "saturate" else torch.where(outside, limits.min, inside)


def broadcast(name: str, *tensors: Tensor) -> list[int]:
    """Returns the broadcast shape of tensors."""
    rank = max(tensor.dim for tensor in tensors)
    result = [1] * rank
    for tensor in tensors:
        for index, size in enumerate(tensor.sizes, rank - tensor.dim):
            if size != 1 and result[index] not in (1, size):
                reject(f"{name} of {' and '.join(map(str, tensors))}, which do not broadcast")
            result[index] = max(result[index], size)
    return result


def _power(run: Run, x: Value, y: Value) -> Value:
    x, y = x.float(), y.float()
    odd = (x < 0) | ((x == 0) & (y <= 0))
    choice = run.unspecified.choose("powers", lambda: odd, "pow of a negative number, or of 0 to 0 or below")
    value = torch.pow(x.abs(), y)
    return value if choice == "magnitude" else torch.where((x < 0) | ((x == 0) & (y == 0)), math.nan, value)


def _divided(run: Run, x: Value, y: Value) -> Value:
    if x.dtype not in INTEGERS:
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
        operands = [call.content(index) for index in (0, 1)]
        if out.dtype in INTEGERS and value.is_floating_point():
            value = to_integers(run, value, call.name)
        run.write(out, value)
        if name not in ("div", "floor_divide"):  # which write zeros
            out.carry_pad(*_filling(out, operands))

    return semantics


def _filling(out: Tensor, operands: Sequence[object]) -> list[Tensor]:
    """Returns operands whose last texels are combined with others: a single element is repeated."""
    return [x for x in operands if isinstance(x, Tensor) and x.whcn[x.packed] == out.whcn[out.packed]]


def _sum(kernel: str, sign: float) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        out = call.tensor(3)
        left, right = _operands(run, call, kernel, out)
        alpha = sign * call.float32(2)
        if out.dtype not in INTEGERS:
            value = left + right * torch.tensor(alpha, dtype=right.dtype)
        elif out.is_buffer:
            value = left + right * int(alpha)
        else:
            # alpha is a float, which makes all of it floats
            value = to_integers(run, left.float() + right.float() * alpha, call.name)
        run.write(out, value)
        out.carry_pad(*_filling(out, [call.content(index) for index in (0, 1)]))

    return semantics


def _scalar(kernel: str, function: Callable[[Run, Value, float], Value]) -> Semantics:
    def semantics(run: Run, call: Call) -> None:
        x, out = call.tensor(0), call.tensor(2)
        given = call.scalar(1)
        integers = x.dtype in INTEGERS and not isinstance(given, float)
        scalar = "int32" if integers else "float"
        run.kernel("_".join([kernel + "_scalar", out.storage, x.shader_dtype, scalar]), out, x)
        same_packed(call.name, x, out)
        value = function(run, wide(run.read(x)), int(given) if integers else call.float32(1))
        if out.dtype in INTEGERS and value.is_floating_point():
            value = to_integers(run, value, call.name)
        run.write(out, value)
        out.carry_pad(x)

    return semantics


def _scalar_power(run: Run, x: Value, y: float) -> Value:
    value = torch.pow(x.float().abs(), y)
    integral = round(y)
    # A remainder has the sign of its dividend in the shader, and is compared with 1.
    if abs(y - integral) < 1e-5 and math.fmod(integral, 2) == 1:
        value = torch.where(x < 0, -value, value)
    return torch.where(x == 0, 1.0 if y == 0 else 0.0, value)


def _scalar_equal(run: Run, x: Value, y: float) -> Value:
    return x == y if isinstance(y, int) else x.float() == y


def _where(run: Run, call: Call) -> None:
    condition, x, y = call.tensor(0), call.tensor(1), call.tensor(2)
    out = call.tensor(3)
    run.kernel(kernel_name("where", out), out, condition, x, y)
    broadcast(call.name, condition, x, y)
    ranks = [tensor.dim for tensor in (condition, x, y) if tensor.dim]
    if run.dynamic and ranks and ranks[0] < max(ranks):
        reject(f"{call.name} of {condition}, {x} and {y}: the runtime resizes {out} by their first sizes")
    run.write(out, torch.where(run.read(condition) > 0, run.read(x), run.read(y)))


_COMPARISONS: Final = ("eq", "lt", "le", "gt", "ge")


def _operators() -> Sequence[tuple[str, Semantics]]:
    tensors = [
        (f"aten.{name}.Tensor", _binary(name)) for name in ("mul", "div", "eq", "lt", "le", "gt", "ge")
    ]
    bits = [
        (f"aten.{prefix}_{name}", _binary(f"bitwise_{name.split('.')[0]}"))
        for prefix, kind in (("bitwise", "Tensor"), ("logical", "default"))
        for name in (f"and.{kind}", f"or.{kind}")
    ]
    return [*tensors, *bits]


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
}
