# SPDX-License-Identifier: Apache-2.0
"""Data types of the format and of torch."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.mps_graph import DataType

TO_FORMAT: Final[dict[torch.dtype, int]] = {
    torch.float16: DataType.FLOAT16,
    torch.float32: DataType.FLOAT32,
    torch.int8: DataType.INT8,
    torch.int16: DataType.INT16,
    torch.int32: DataType.INT32,
    torch.int64: DataType.INT64,
    torch.bool: DataType.BOOL,
}
"""The types that the runtime's `getMPSDataType` supports unchanged (it silently narrows float64)."""

FROM_FORMAT: Final[dict[int, torch.dtype]] = {
    **{value: dtype for dtype, value in TO_FORMAT.items()},
    DataType.FLOAT64: torch.float32,
}
"""The runtime's dtype for each supported type of the format."""

FLOATS: Final = frozenset({torch.float16, torch.float32})
INTEGERS: Final = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})
NUMERIC: Final = FLOATS | INTEGERS
ALL: Final = NUMERIC | {torch.bool}
