# SPDX-License-Identifier: Apache-2.0
"""Constants and scalars in the dtype of a delegate's values."""

from __future__ import annotations

import math

import torch

from delegatec.backends.common.arranged import Arrange, ArrangedElements
from delegatec.backends.common.constants import (
    FLOAT16_MAX,
    FLOAT32_MAX,
    Float16Bytes,
    is_beyond_float16,
    nonzero_in_float16,
    to_float16,
)
from delegatec.delegation import Part
from delegatec.delegation.protocol.parts import TensorBytes, tensor_part


class _Widened(TensorBytes):
    """Elements that are rounded to float16, as float32."""

    def __init__(self, part: Float16Bytes) -> None:
        super().__init__(part.values, 4)
        self._part = part

    def elements(self, start: int, end: int) -> torch.Tensor:
        """Rounds a range."""
        return self._part.elements(start, end).float()


def converted_tensor(
    tensor: torch.Tensor,
    dtype: torch.dtype,
    saturates: bool,
    arrange: Arrange | None = None,
    is_wide: bool = False,
) -> tuple[Part, str]:
    """Returns the bytes of a tensor in a dtype, and a text with the values out of float16's range, if any.

    Args:
        tensor: any shape.
        dtype: float32 or float16; float32 becomes float16 while it is written.
        saturates: whether values out of float16's range become the largest ones.
        arrange: permutes its dimensions, if not None.
        is_wide: whether float16 is stored as float32.
    """
    written = None if arrange is None else ArrangedElements(tensor, arrange)
    if written is not None and written.is_row_major:
        written = None
    if dtype == torch.float16 and tensor.dtype == torch.float32:
        if tensor.numel() == 1:
            tensor = torch.full_like(tensor, nonzero_in_float16(tensor.item()))
        part, lost = to_float16(tensor, saturates, written)
        return _Widened(part) if is_wide else part, lost
    if is_wide and tensor.dtype == torch.float16:
        part, _ = to_float16(tensor, False, written)
        return _Widened(part), ""
    if written is not None:
        return TensorBytes(written, tensor.itemsize), ""
    return tensor_part(tensor.to(dtype)), ""


def narrowed_scalar(scalar: float, saturates: bool) -> tuple[float, str]:
    """Returns a scalar in the range of float16, and a text if it is out of range and does not saturate."""
    if is_beyond_float16(scalar):
        lost = "" if saturates or abs(scalar) == FLOAT32_MAX else f"the scalar {scalar} is beyond float16"
        return math.copysign(FLOAT16_MAX, scalar), lost
    return nonzero_in_float16(scalar), ""
