# SPDX-License-Identifier: Apache-2.0
"""Elementwise nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from delegatec.backends.mlx.reference.run import Run, Semantics, dtype_of, floating, promoted, text

Tensor = torch.Tensor


def _unary(function: Callable[[Tensor], Tensor], *, floats: bool = False) -> Semantics:
    """Returns the semantics of a function; `floats` converts integers to float32 first."""

    def run(run: Run, node: Any) -> None:
        x = run[node.x]
        run[node.out] = function(floating(x) if floats else x)

    return run


def _binary(function: Callable[[Tensor, Tensor], Tensor], *, floats: bool = False) -> Semantics:
    def run(run: Run, node: Any) -> None:
        first, second = promoted(run[node.a], run[node.b])
        if floats:
            first, second = floating(first), floating(second)
        run[node.out] = function(first, second)

    return run


def _logical(function: Callable[[Tensor, Tensor], Tensor]) -> Semantics:
    def run(run: Run, node: Any) -> None:
        run[node.out] = function(run[node.a].bool(), run[node.b].bool())

    return run


def _floor_divide(first: Tensor, second: Tensor) -> Tensor:
    """Of integers the runtime returns the exact quotient, less 1 where signs differ, as float32."""
    if first.dtype.is_floating_point:
        return (first / second).floor()
    remainder = first.remainder(second)
    adjusted = (remainder != 0) & ((first < 0) != (second < 0))
    return first.float() / second.float() - adjusted.float()


def _gelu(run: Run, node: Any) -> None:
    """Of infinity it is infinity, where torch's vector code has NaN."""
    x = run[node.x]
    if text(node.approximate) == "tanh":
        found = torch.nn.functional.gelu(x, approximate="tanh")
    else:
        wide = x.float()
        found = (wide * (1 + torch.erf(wide / math.sqrt(2))) / 2).to(x.dtype)
    run[node.out] = found


def _round(run: Run, node: Any) -> None:
    x = run[node.x]
    if not x.dtype.is_floating_point:
        run[node.out] = x
    else:
        factor = 10.0**node.decimals
        run[node.out] = x.round() if node.decimals == 0 else (x * factor).round() / factor


def _where(run: Run, node: Any) -> None:
    first, second = promoted(run[node.x], run[node.y])
    run[node.out] = torch.where(run[node.condition].bool(), first, second)


def _clip(run: Run, node: Any) -> None:
    """The upper bound has precedence; NaN is kept."""
    x = run[node.x]
    low, high = run.optional(node.low), run.optional(node.high)
    if low is not None:
        x = torch.maximum(*promoted(x, low))
    run[node.out] = x if high is None else torch.minimum(*promoted(x, high))


def _as_type(run: Run, node: Any) -> None:
    run[node.out] = run[node.x].to(dtype_of(node.dtype))


def _copy(run: Run, node: Any) -> None:
    run[node.out] = run[node.x]


def _noop(_: Run, __: Any) -> None:
    pass


def _integral(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: function(x) if x.dtype.is_floating_point else x


_FLOATS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "Arccos": torch.acos,
    "Arccosh": torch.acosh,
    "Arcsin": torch.asin,
    "Arcsinh": torch.asinh,
    "Arctan": torch.atan,
    "Arctanh": torch.atanh,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Expm1": torch.expm1,
    "Log": torch.log,
    "Log10": torch.log10,
    "Log1p": torch.log1p,
    "Log2": torch.log2,
    "Reciprocal": torch.reciprocal,
    "Rsqrt": torch.rsqrt,
    "Sigmoid": torch.sigmoid,
    "Silu": torch.nn.functional.silu,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}
_COMPARISONS: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "NotEqual": torch.ne,
}

SEMANTICS: Final[dict[str, Semantics]] = {
    **{name: _unary(function, floats=True) for name, function in _FLOATS.items()},
    **{name: _binary(function) for name, function in _COMPARISONS.items()},
    "Abs": _unary(torch.abs),
    "Add": _binary(torch.add),
    "AsType": _as_type,
    "Atan2": _binary(torch.atan2, floats=True),
    "BitwiseAnd": _binary(torch.bitwise_and),
    "BitwiseInvert": _unary(torch.bitwise_not),
    "BitwiseOr": _binary(torch.bitwise_or),
    "BitwiseXor": _binary(torch.bitwise_xor),
    "Ceil": _unary(_integral(torch.ceil)),
    "Clip": _clip,
    "Contiguous": _unary(torch.Tensor.contiguous),
    "Divide": _binary(torch.div, floats=True),
    "Floor": _unary(_integral(torch.floor)),
    "FloorDivide": _binary(_floor_divide),
    "Gelu": _gelu,
    "IdCopy": _copy,
    "LogAddExp": _binary(torch.logaddexp, floats=True),
    "LogicalAnd": _logical(torch.logical_and),
    "LogicalNot": _unary(torch.logical_not),
    "LogicalOr": _logical(torch.logical_or),
    "Maximum": _binary(torch.maximum),
    "Minimum": _binary(torch.minimum),
    "Multiply": _binary(torch.mul),
    "Neg": _unary(torch.neg),
    "Noop": _noop,
    "Power": _binary(torch.pow),
    "Remainder": _binary(torch.remainder),
    "Round": _round,
    "Sign": _unary(torch.sign),
    "Square": _unary(torch.square),
    "Subtract": _binary(torch.sub),
    "Trunc": _unary(_integral(torch.trunc)),
    "Where": _where,
}
