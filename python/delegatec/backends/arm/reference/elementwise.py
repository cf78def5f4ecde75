# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch
from delegatec_schemas.tosa_graph import NanMode

_FUNCTIONS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "EXP": torch.exp,
    "LOG": torch.log,
    "SIN": torch.sin,
    "COS": torch.cos,
    "TANH": torch.tanh,
    "SIGMOID": torch.sigmoid,
    "ERF": torch.erf,
    "POW": torch.pow,
    "RSQRT": torch.rsqrt,
    "RECIPROCAL": torch.reciprocal,
    "FLOOR": torch.floor,
    "CEIL": torch.ceil,
    "ABS": torch.abs,
    "ADD": torch.add,
    "SUB": torch.sub,
    "EQUAL": torch.eq,
    "GREATER": torch.gt,
    "GREATER_EQUAL": torch.ge,
    "LOGICAL_AND": torch.logical_and,
    "LOGICAL_OR": torch.logical_or,
    "LOGICAL_XOR": torch.logical_xor,
    "LOGICAL_NOT": torch.logical_not,
    "BITWISE_AND": torch.bitwise_and,
    "BITWISE_OR": torch.bitwise_or,
    "BITWISE_XOR": torch.bitwise_xor,
    "BITWISE_NOT": torch.bitwise_not,
    "LOGICAL_LEFT_SHIFT": torch.bitwise_left_shift,
    "SELECT": torch.where,
    "IDENTITY": torch.clone,
}


def _kernel(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *operands, **_: function(*operands)


def _mul(first: torch.Tensor, second: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    if first.is_floating_point():
        return first * second
    wide = first.to(torch.int64) * second.to(torch.int64)
    by = int(shift)
    if by:
        wide = wide + (1 << by - 1) >> by
    return wide.to(torch.int32)


def _negate(x: torch.Tensor, zero: torch.Tensor, out_zero: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point():
        return -x
    limits = torch.iinfo(x.dtype)
    wide = int(zero) - x.to(torch.int64) + int(out_zero)
    return wide.to(x.dtype) if x.dtype == torch.int32 else wide.clamp(limits.min, limits.max).to(x.dtype)


def _extremum(
    propagate: Callable[..., torch.Tensor], ignore: Callable[..., torch.Tensor]
) -> Callable[..., torch.Tensor]:
    return lambda first, second, nan_mode: (propagate if nan_mode == NanMode.PROPAGATE else ignore)(
        first, second
    )


def _clamp(x: torch.Tensor, min_val: Sequence[int], max_val: Sequence[int], nan_mode: int) -> torch.Tensor:
    low, high = (torch.frombuffer(bytearray(each), dtype=x.dtype)[0] for each in (min_val, max_val))
    if nan_mode == NanMode.PROPAGATE:
        return torch.minimum(torch.maximum(x, low), high)
    return torch.fmin(torch.fmax(x, low), high)


def _right_shift(x: torch.Tensor, by: torch.Tensor, round: bool) -> torch.Tensor:
    wide = x.to(torch.int64)
    shifted = wide >> by.to(torch.int64)
    if round:
        last = (wide >> (by.to(torch.int64) - 1).clamp(0)) & 1
        shifted = shifted + torch.where(by > 0, last, 0)
    return shifted.to(x.dtype)


def _unsigned_shift(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    bits = 8 * x.dtype.itemsize
    return ((x.to(torch.int64) & ((1 << bits) - 1)) >> by.to(torch.int64)).to(x.dtype)


def _quotient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.div(x, y, rounding_mode="trunc")


def _leading_zeros(x: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.int64) & 0xFFFFFFFF
    return sum(((wide >> bit) == 0).to(torch.int32) for bit in range(32))  # type: ignore[return-value]


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    **{name: _kernel(function) for name, function in _FUNCTIONS.items()},
    "MUL": _mul,
    "NEGATE": _negate,
    "MAXIMUM": _extremum(torch.maximum, torch.fmax),
    "MINIMUM": _extremum(torch.minimum, torch.fmin),
    "CLAMP": _clamp,
    "ARITHMETIC_RIGHT_SHIFT": _right_shift,
    "LOGICAL_RIGHT_SHIFT": _unsigned_shift,
    "INTDIV": _quotient,
    "CLZ": _leading_zeros,
}
