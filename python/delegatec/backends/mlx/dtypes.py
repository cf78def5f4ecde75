# SPDX-License-Identifier: Apache-2.0
"""Data types of the runtime, which the format numbers as ExecuTorch's `ScalarType` does."""

from __future__ import annotations

from typing import Final

import torch

TO_FORMAT: Final[dict[torch.dtype, int]] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint32: 28,
}
"""The types that the runtime's `resolve_dtype` accepts."""

FROM_FORMAT: Final[dict[int, torch.dtype]] = {value: dtype for dtype, value in TO_FORMAT.items()}

HALVES: Final = frozenset({torch.float16, torch.bfloat16})
FLOATS: Final = HALVES | {torch.float32}
INTEGERS: Final = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
NUMERIC: Final = FLOATS | INTEGERS
ALL: Final = NUMERIC | {torch.bool}
"""The types of values; uint32 is that of packed weights, and of positions until they are converted."""
