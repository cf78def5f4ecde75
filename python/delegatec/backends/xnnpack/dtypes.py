# SPDX-License-Identifier: Apache-2.0
"""Data types of the format and of torch."""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas.xnnpack_graph import DataType

TO_FORMAT: Final[dict[torch.dtype, int]] = {
    torch.float16: DataType.FLOAT16,
    torch.float32: DataType.FLOAT32,
}
"""The types of values that are not quantized."""

FLOATS: Final = frozenset(TO_FORMAT)
