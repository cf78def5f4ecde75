# SPDX-License-Identifier: Apache-2.0
"""Constants of a blob: the bytes of tensors, without copying where the format takes them as they are."""

from __future__ import annotations

import math
from typing import Final

import torch

FLOAT16_MAX: Final = 65504.0
FLOAT32_MAX: Final = torch.finfo(torch.float32).max


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """Bytes of a tensor in row-major order: a view of its storage if that is how it lies there."""
    data: memoryview = tensor.detach().contiguous().numpy().reshape(-1).data
    return data.cast("B")


def to_float16(tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
    """A float32 tensor as float16, and what is out of range.

    The lowest and highest float32, which models write for "masked", become the lowest and highest float16, as
    `torch.finfo` would have given them in that type. Infinities and NaN stay.

    Args:
        tensor: float32, any shape.

    Returns:
        The converted tensor, and a text that names the count and the largest of the other values beyond
        +-65504; empty if there are none.
    """
    half = tensor.to(torch.float16)
    if tensor.numel() == 0 or _is_finite(half):
        return half, ""
    lost = half.isinf() & tensor.isfinite()
    if not lost.any():
        return half, ""
    masked = lost & (tensor.abs() == FLOAT32_MAX)
    half[masked] = tensor[masked].sign().to(torch.float16) * FLOAT16_MAX
    rest = tensor[lost & ~masked]
    if rest.numel() == 0:
        return half, ""
    worst = rest[rest.abs().argmax()].item()
    values = "1 value" if rest.numel() == 1 else f"{rest.numel()} values"
    return half, f"{values} beyond float16 (+-{FLOAT16_MAX:g}), the largest {worst:g}"


def _is_finite(tensor: torch.Tensor) -> bool:
    """Whether no value is infinite or NaN: one pass that allocates nothing."""
    low, high = (value.item() for value in tensor.aminmax())
    return low > -math.inf and high < math.inf  # not so for NaN
