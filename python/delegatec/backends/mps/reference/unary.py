# SPDX-License-Identifier: Apache-2.0
"""Elementwise unary operations (the runtime's UnaryOps and ClampOps, which do not cast).

MPSGraph has most functions for floats only: `exp` and others of int32 return zeros, of int64 stop with
"Function logarithm_i64 was not found in the library" (pytorch/pytorch#78019), as does `floor` (#84995).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT

from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.reference.run import Run, Semantics, floats, one_dtype, reject, wide
from delegatec.edge.arguments import short_name

Tensor = torch.Tensor


def _of_floats(name: str, function: Callable[[Tensor], Tensor]) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        x = run[op.input1Id]
        dtype = floats(name, x)
        result = function(wide(x))
        run[op.outputId] = result if result.dtype == torch.bool else result.to(dtype)

    return apply


def _of_numeric(name: str, function: Callable[[Tensor], Tensor]) -> Semantics:
    def apply(run: Run, op: Any, _: NodeT) -> None:
        x = run[op.input1Id]
        if x.dtype == torch.bool:
            reject(f"{name} of bool")
        run[op.outputId] = function(x)

    return apply


def _round(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    dtype = floats("Round", x)
    value = wide(x)
    half = (value - value.trunc()).abs() == 0.5
    if run.unspecified.choose("rounding", lambda: half, "Round of x.5") == "even":
        run[op.outputId] = value.round().to(dtype)
        return
    rounded = torch.where(half, value.abs().ceil().copysign(value), value.round())
    run[op.outputId] = rounded.to(dtype)


def _logical_not(run: Run, op: Any, _: NodeT) -> None:
    """Keeps the dtype of its operand."""
    x = run[op.input1Id]
    run[op.outputId] = (x == 0).to(x.dtype)


def _bitwise_not(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    if x.dtype in FLOATS:
        reject(f"BitwiseNot of {short_name(x.dtype)}")
    run[op.outputId] = ~x


def pick(run: Run, x: Tensor, other: Tensor, largest: bool, what: str) -> Tensor:
    """`maximum` or `minimum`. Both operands have one dtype."""
    choose = torch.maximum if largest else torch.minimum
    if x.dtype not in FLOATS:
        return choose(x, other)
    missing = x.isnan() | other.isnan()
    if run.unspecified.choose("nan", lambda: missing, f"{what} of NaN") == "nan":
        return choose(x, other)
    return (torch.fmax if largest else torch.fmin)(x, other)


def _relu(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    if x.dtype == torch.bool:
        reject("Relu of bool")
    run[op.outputId] = pick(run, x, torch.zeros((), dtype=x.dtype), True, "Relu")


def _clamp(run: Run, op: Any, node: NodeT) -> None:
    """The bounds are floats, made constants of the operand's dtype. NaN is a bound like any other."""
    x = run[op.input1Id]
    low, high = (-math.inf, math.inf) if node.minMax is None else (node.minMax.minValue, node.minMax.maxValue)
    if (low, high) == (-math.inf, math.inf):
        return  # The result has no value: uses of it are rejected.
    if x.dtype == torch.bool:
        reject("Clamp of bool")
    lowest, highest = (run.scalar_tensor(value, x.dtype) for value in (low, high))
    if low == -math.inf:
        run[op.outputId] = pick(run, x, highest, False, "Clamp")
    elif high == math.inf:
        run[op.outputId] = pick(run, x, lowest, True, "Clamp")
    else:
        empty = not low <= high
        order = run.unspecified.choose("bounds", lambda: empty, f"Clamp to between {low} and {high}")
        if empty and order == "low":
            run[op.outputId] = pick(run, pick(run, x, highest, False, "Clamp"), lowest, True, "Clamp")
        else:
            run[op.outputId] = pick(run, pick(run, x, lowest, True, "Clamp"), highest, False, "Clamp")


def _where(run: Run, op: Any, _: NodeT) -> None:
    condition, first, second = run[op.input1Id], run[op.input2Id], run[op.input3Id]
    one_dtype(first, second)
    run.broadcast("Where", condition, first, second)
    run[op.outputId] = torch.where(run.cast(condition, torch.bool, "Where's condition"), first, second)


# Names of the format, which are those of torch except for the case.
_OF_FLOATS: Final = (
    *("Exp", "Exp2", "Reciprocal", "Sqrt", "Log", "Log10", "Log2", "Erf", "Floor", "Ceil", "Rsqrt"),
    *("Sigmoid", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh"),
    *("Atanh", "Isnan", "Isinf"),
)
_OF_NUMERIC: Final = ("Neg", "Sign", "Abs")

SEMANTICS: Final[dict[str, Semantics]] = {
    **{name: _of_floats(name, getattr(torch, name.lower())) for name in _OF_FLOATS},
    **{name: _of_numeric(name, getattr(torch, name.lower())) for name in _OF_NUMERIC},
    "Round": _round,
    "LogicalNot": _logical_not,
    "BitwiseNot": _bitwise_not,
    "Relu": _relu,
    "Clamp": _clamp,
    "Where": _where,
}
