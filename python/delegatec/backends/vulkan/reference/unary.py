# SPDX-License-Identifier: Apache-2.0
"""Functions of one operand, computed in float32.

`gelu` is always the approximation by tanh.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch

from delegatec.backends.vulkan.reference.call import Call, same_packed
from delegatec.backends.vulkan.reference.elementwise import INTEGERS, to_integers
from delegatec.backends.vulkan.reference.run import Run, Semantics, kernel_name
from delegatec.backends.vulkan.reference.tensors import reject

Value = torch.Tensor


def _gelu(x: Value) -> Value:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / 3.141593) * (x + 0.044715 * x * x * x)))


def _hard_sigmoid(x: Value) -> Value:
    # The shader blends both values by factors of 0 and 1: NaN stays.
    return torch.where(x.abs() > 3, (x >= 0).to(x.dtype), x / 6 + 0.5)


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
    if out.dtype in INTEGERS:
        value = to_integers(run, value, call.name)
    run.write(out, value)
    out.pad = None if x.pad is None else float(function(torch.tensor(x.pad)))


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
    low = -math.inf if call.is_none(1) else call.float32(1)
    high = math.inf if call.is_none(2) else call.float32(2)
    _unary(run, call, "clamp", 3, lambda x: clamp(run, x, low, high))


def _relu(high: float) -> Semantics:
    return lambda run, call: _unary(run, call, "clamp", 1, lambda x: clamp(run, x, 0.0, high))


def _hard_shrink(run: Run, call: Call) -> None:
    high = -math.inf if call.is_none(1) else call.float32(1)
    low = -math.inf if call.is_none(1) else -high
    _unary(run, call, "hardshrink", 2, lambda x: x * ((x > high).float() + (x < low).float()))


def _leaky_relu(run: Run, call: Call) -> None:
    slope = -math.inf if call.is_none(1) else call.float32(1)
    _unary(run, call, "leaky_relu", 2, lambda x: x * ((x > 0).float() + slope * (x <= 0).float()))


def _bitwise_not(run: Run, call: Call) -> None:
    """Returns 1 - x: the complement of a bool."""
    x, out = call.tensor(0), call.tensor(1)
    run.kernel(kernel_name("bitwise_not", out, dtype_first=True), out, x)
    same_packed(call.name, x, out)
    run.write(out, 1 - run.read(x).to(torch.uint8))


SEMANTICS: Final[dict[str, Semantics]] = {
    **{f"aten.{name}.default": _function(name) for name in _FUNCTIONS if name != "gelu"},
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
