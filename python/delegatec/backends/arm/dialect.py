# SPDX-License-Identifier: Apache-2.0
"""Integer operators of TOSA without a counterpart in ATen, as targets of calls in private programs.

Each has the results of the TOSA 1.0 specification. int64 stores int48 accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

_SCHEMAS: Final = (
    # One multiplier and shift, or one per channel of `axis`. `x` is multiplied by multiplier / 2^shift; int48
    # has 16-bit multipliers. rounding: "single" or "double".
    "rescale(Tensor x, int[] multiplier, int[] shift, int in_zero, int out_zero, int axis, bool per_channel, "
    "str rounding, ScalarType dtype, bool input_unsigned=False, bool output_unsigned=False) -> Tensor",
    # int8: 256 entries, the results; int16: 513 entries of int16, interpolated to int32 with 7 more bits
    "table(Tensor x, Tensor table) -> Tensor",
    # [N, H, C] x [N, C, W]: int8 to int32, int16 to int48
    "matmul(Tensor x, Tensor y, int x_zero, int y_zero) -> Tensor",
    # zeros before the highest bit of int32
    "clz(Tensor x) -> Tensor",
    # by 0 to 31 bits of int32; to the right, halves are rounded up
    "shift_left(Tensor x, Tensor by) -> Tensor",
    "shift_right(Tensor x, Tensor by) -> Tensor",
)

INT48: Final = torch.int64
"""The dtype of accumulators for int16."""


def rescale(
    x: Tensor,
    multiplier: Sequence[int],
    shift: Sequence[int],
    in_zero: int,
    out_zero: int,
    axis: int,
    per_channel: bool,
    rounding: str,
    dtype: torch.dtype,
    input_unsigned: bool = False,
    output_unsigned: bool = False,
) -> Tensor:
    """Multiplies by a fixed-point value, and saturates."""
    shape = [-1 if per_channel and dim == axis else 1 for dim in range(x.dim())]
    factors, shifts = (
        torch.tensor(each, dtype=torch.int64, device=x.device).reshape(shape) for each in (multiplier, shift)
    )
    wide = x.to(torch.int64) - in_zero
    half = torch.ones((), dtype=torch.int64, device=x.device) << (shifts - 1)
    if rounding == "double":
        half = half + torch.where(shifts > 31, torch.where(wide >= 0, 1 << 30, -(1 << 30)), 0)
    limits = torch.iinfo(dtype)
    return ((wide * factors + half >> shifts) + out_zero).clamp(limits.min, limits.max).to(dtype)


def table(x: Tensor, table: Tensor) -> Tensor:
    """Returns entries of a table."""
    index = x.to(torch.int64)
    if x.dtype == torch.int8:
        return table[index + 128]
    entries = table.to(torch.int64)
    entry, fraction = (index >> 7) + 256, index & 127
    base = entries[entry]
    return ((base << 7) + (entries[entry + 1] - base) * fraction).to(torch.int32)


def matmul(x: Tensor, y: Tensor, x_zero: int, y_zero: int) -> Tensor:
    """Multiplies batches of matrices."""
    # float64 has exact sums of such products
    product = (x.to(torch.float64) - x_zero) @ (y.to(torch.float64) - y_zero)
    return product.to(_accumulator(x))


def clz(x: Tensor) -> Tensor:
    """Counts leading zeros."""
    exponents = torch.frexp((x.to(torch.int64) & 0xFFFFFFFF).to(torch.float64)).exponent
    return 32 - exponents.to(torch.int32)


def shift_left(x: Tensor, by: Tensor) -> Tensor:
    """Multiplies by powers of two; higher bits are lost."""
    return (x.to(torch.int64) << by).to(torch.int32)


def shift_right(x: Tensor, by: Tensor) -> Tensor:
    """Divides by powers of two, with rounding."""
    half = torch.where(by > 0, torch.ones_like(by, dtype=torch.int64) << (by - 1).clamp(min=0), 0)
    return (x.to(torch.int64) + half >> by).to(torch.int32)


def _rescaled(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    dtype = args[7] if len(args) > 7 else kwargs["dtype"]
    return x.new_empty(x.shape, dtype=dtype)


def _entries(x: Tensor, table: Tensor) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.int8 if x.dtype == torch.int8 else torch.int32)


def _product(x: Tensor, y: Tensor, x_zero: int, y_zero: int) -> Tensor:
    return x.new_empty((*x.shape[:2], y.shape[2]), dtype=_accumulator(x))


def _shifted(x: Tensor, by: Tensor) -> Tensor:
    return x.new_empty(torch.broadcast_shapes(x.shape, by.shape))  # type: ignore[no-untyped-call]


def _accumulator(x: Tensor) -> torch.dtype:
    return torch.int32 if x.dtype == torch.int8 else INT48


_FUNCTIONS: Final[tuple[tuple[Callable[..., Tensor], Callable[..., Tensor]], ...]] = (
    (rescale, _rescaled),
    (table, _entries),
    (matmul, _product),
    (clz, torch.empty_like),
    (shift_left, _shifted),
    (shift_right, _shifted),
)
_LIBRARY: Final[Any] = torch.library.Library("delegatec_tosa", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema, (_function, _meta) in zip(_SCHEMAS, _FUNCTIONS, strict=True):
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CPU")
    _LIBRARY.impl(_schema.partition("(")[0], _meta, "Meta")

TOSA: Final = torch.ops.delegatec_tosa
