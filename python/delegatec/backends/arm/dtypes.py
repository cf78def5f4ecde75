# SPDX-License-Identifier: Apache-2.0
"""Data types of TOSA and of torch."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType

TO_TOSA: Final[dict[torch.dtype, int]] = {
    torch.bool: DType.BOOL,
    torch.int8: DType.INT8,
    torch.uint8: DType.INT8,
    torch.int16: DType.INT16,
    torch.int32: DType.INT32,
    torch.int64: DType.INT32,
    torch.float16: DType.FP16,
    torch.bfloat16: DType.BF16,
    torch.float32: DType.FP32,
    torch.float8_e4m3fn: DType.FP8E4M3,
    torch.float8_e5m2: DType.FP8E5M2,
}
"""dtype of a value in a private program -> in TOSA, which has no 64-bit types and no unsigned ones."""

STORED: Final[dict[int, torch.dtype]] = {
    DType.BOOL: torch.bool,
    DType.INT8: torch.int8,
    DType.INT16: torch.int16,
    DType.INT32: torch.int32,
    DType.FP16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.FP32: torch.float32,
    DType.FP8E4M3: torch.float8_e4m3fn,
    DType.FP8E5M2: torch.float8_e5m2,
}
"""Type in TOSA -> dtype with the same bytes; others are packed."""

BITS: Final[dict[int, int]] = {
    DType.INT4: 4,
    DType.INT48: 48,
    DType.FP4E2M1: 4,
    DType.FP6E2M3: 6,
    DType.FP6E3M2: 6,
    DType.FP8UE8M0: 8,
    **{value: 8 * dtype.itemsize for value, dtype in STORED.items()},
}
"""Type in TOSA -> bits of an element; types of tensors alone."""


def names_of(enumeration: type) -> dict[int, str]:
    """Returns integer value -> name of an enumeration of the schema."""
    return {value: name for name, value in vars(enumeration).items() if not name.startswith("_")}


NAMES: Final = names_of(DType)

FLOATS: Final = frozenset({torch.float16, torch.bfloat16, torch.float32})
FLOATS_8: Final = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
INTEGERS: Final = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})
NUMERIC: Final = FLOATS | INTEGERS
BOOLS: Final = frozenset({torch.bool})
VALUES: Final = NUMERIC | BOOLS
"""dtypes that TOSA computes with."""
ALL: Final = VALUES | FLOATS_8 | {torch.uint8}
"""dtypes that TOSA moves: it has no arithmetic for unsigned ones, and sums alone for float8."""

FORMATS: Final = {
    "fp8e4m3": DType.FP8E4M3,
    "fp8e5m2": DType.FP8E5M2,
    "fp6e2m3": DType.FP6E2M3,
    "fp6e3m2": DType.FP6E3M2,
    "fp4e2m1": DType.FP4E2M1,
}
"""Name of a format of `edge.block_scaled` -> its type in TOSA."""
BYTES: Final = frozenset({DType.FP4E2M1, DType.FP6E2M3, DType.FP6E3M2, DType.FP8UE8M0})
"""Types that are bytes in torch."""

FORMAT_FLOATS_8: Final = frozenset({DType.FP8E4M3, DType.FP8E5M2})
FORMAT_FLOATS: Final = frozenset({DType.FP16, DType.BF16, DType.FP32}) | FORMAT_FLOATS_8
"""Floating-point types of TOSA."""
