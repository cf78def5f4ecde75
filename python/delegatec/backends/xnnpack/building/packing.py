# SPDX-License-Identifier: Apache-2.0
"""Bytes of four-bit weights, packed while they are written."""

from __future__ import annotations

from typing import Final

from torch import Tensor
from torch.nn import functional

from delegatec.backends.common.arranged import ArrangedElements
from delegatec.delegation.protocol.parts import ComputedBytes, tensor_bytes

_OFFSET: Final = 8


class OffsetInt4Bytes(ComputedBytes):
    """An int8 matrix as rows of int4, two values in a byte, each plus eight.

    The first of two is in the low nibble. A row with an odd number of columns ends with half a byte.

    Args:
        values: int8, [rows, columns], all in [-8, 8), of any strides.
    """

    def __init__(self, values: Tensor) -> None:
        # a copy of the few weights with an odd number of inputs
        even = functional.pad(values, (0, 1)) if values.shape[1] % 2 else values
        self._values = ArrangedElements(even, Tensor.detach)

    def __len__(self) -> int:
        return self._values.numel() // 2

    def __getitem__(self, place: slice, /) -> memoryview:
        start, end, _ = place.indices(len(self))
        pairs = self._values[2 * start : 2 * end].view(-1, 2) + _OFFSET
        return tensor_bytes(pairs[:, 0] | (pairs[:, 1] << 4))
