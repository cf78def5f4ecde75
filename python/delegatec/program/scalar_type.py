# SPDX-License-Identifier: Apache-2.0
"""Mapping from torch.dtype to c10::ScalarType, which programs store. Source: c10/core/ScalarType.h."""

from __future__ import annotations

from typing import Final

import torch

SCALAR_TYPES: Final[dict[torch.dtype, int]] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
}
