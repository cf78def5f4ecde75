# SPDX-License-Identifier: Apache-2.0
"""Operators that convert between types; integers of 48 bits are int64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from delegatec_schemas.tosa_graph import RoundingMode

_BEYOND_E4M3: Final = 464.0


def _cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounds floating point to the nearest integer, ties to even, and saturates; narrowed integers wrap.

    Integers from NaN are unspecified.
    """
    if dtype == torch.float8_e4m3fn:
        # without infinities: NaN from half an ULP above the largest float
        return torch.where(x.abs() > _BEYOND_E4M3, torch.nan, x).to(dtype)
    if not x.is_floating_point() or dtype.is_floating_point or dtype == torch.bool:
        return x.to(dtype)
    limits = torch.iinfo(dtype)
    integral = x.to(torch.float64).round().nan_to_num(0.0, limits.max, limits.min)
    return integral.clamp(limits.min, limits.max).to(dtype)


def _rescale(
    x: torch.Tensor,
    multiplier: torch.Tensor,
    shift: torch.Tensor,
    in_zero: torch.Tensor,
    out_zero: torch.Tensor,
    dtype: torch.dtype,
    scale32: bool,
    rounding_mode: int,
    per_channel: bool,
    input_unsigned: bool,
    output_unsigned: bool,
) -> torch.Tensor:
    wide = _wide(x, input_unsigned) - _wide(in_zero, input_unsigned)
    by = shift.to(torch.int64)
    half = torch.ones_like(by) << (by - 1)
    if rounding_mode == RoundingMode.DOUBLE_ROUND:
        half = half + torch.where(by > 31, torch.where(wide >= 0, 1 << 30, -(1 << 30)), 0)
    # products of int32 have 63 bits, and so do those of int48 and int16
    value = (wide * multiplier.to(torch.int64) + half >> by) + _wide(out_zero, output_unsigned)
    value = value.reshape(x.shape)  # a 0-d tensor broadcasts to the one dimension of the parameters
    bits = 8 * dtype.itemsize
    if output_unsigned:
        return value.clamp(0, (1 << bits) - 1).to(dtype)
    return value.clamp(-(1 << bits - 1), (1 << bits - 1) - 1).to(dtype)


def _wide(x: torch.Tensor, is_unsigned: bool) -> torch.Tensor:
    wide = x.to(torch.int64)
    return wide & (1 << 8 * x.dtype.itemsize) - 1 if is_unsigned else wide


def _table(x: torch.Tensor, table: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    index = x.to(torch.int64)
    if x.dtype == torch.int8:
        return table[index + 128]
    entries = table.to(torch.int64)
    at, fraction = (index + 32768) >> 7, index & 127
    return (entries[at] * 128 + (entries[at + 1] - entries[at]) * fraction).to(dtype)


def _matmul(
    x: torch.Tensor, y: torch.Tensor, x_zero: torch.Tensor, y_zero: torch.Tensor, dtype: torch.dtype
) -> torch.Tensor:
    if x.is_floating_point():
        return torch.bmm(x.to(torch.float32), y.to(torch.float32)).to(dtype)
    # sums of products below 2^53 are exact
    return torch.bmm((x - x_zero.double()), (y - y_zero.double())).to(dtype)


KERNELS: Final[Mapping[str, Callable[..., torch.Tensor]]] = {
    "CAST": _cast,
    "MATMUL": _matmul,
    "RESCALE": _rescale,
    "TABLE": _table,
}
"""Kernels with the dtype of the result as an argument."""
