# SPDX-License-Identifier: Apache-2.0
"""Data types of the format and of torch."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.vulkan_graph import DataType

TO_FORMAT: Final[dict[torch.dtype, int]] = {
    torch.bool: DataType.BOOL,
    torch.uint8: DataType.UINT8,
    torch.int8: DataType.INT8,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT64,
    torch.float16: DataType.FLOAT16,
    torch.float32: DataType.FLOAT32,
    torch.float64: DataType.FLOAT64,
}
FROM_FORMAT: Final[dict[int, torch.dtype]] = {value: dtype for dtype, value in TO_FORMAT.items()}

STORED: Final[dict[torch.dtype, torch.dtype]] = {torch.int64: torch.int32}
"""dtype of a value in the model -> on the device, which may not have 64-bit types; the others are stored
unchanged. The runtime converts inputs and outputs."""

FLOATS: Final = frozenset({torch.float16, torch.float32})
INTEGERS: Final = frozenset({torch.int32, torch.int64})
NUMERIC: Final = FLOATS | INTEGERS
BOOLS: Final = frozenset({torch.bool})
ALL: Final = NUMERIC | BOOLS
QUANTIZED: Final = frozenset({torch.int8, torch.uint8})
"""dtypes of quantized values, and of pairs of 4 bits, which few operators support."""


def stored(dtype: torch.dtype) -> torch.dtype:
    """Returns the dtype in which values are stored on the device."""
    return STORED.get(dtype, dtype)
