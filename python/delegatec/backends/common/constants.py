# SPDX-License-Identifier: Apache-2.0
"""Constants of a blob: the bytes of tensors, without copying where the format takes them as they are."""

from __future__ import annotations

import math
from typing import Final

import torch

from delegatec.delegation import ComputedBytes

FLOAT16_MAX: Final = 65504.0
FLOAT16_LEAST: Final = 2.0**-24
"""The smallest number above zero."""
FLOAT32_MAX: Final = torch.finfo(torch.float32).max

# Halfway between the largest number and the one that would be next: from here on all round to infinity.
_OVERFLOW: Final = 65520.0
# Numbers are looked at this many at a time where that takes memory.
_STEP: Final = 1 << 18


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """Bytes of a tensor in row-major order: a view of its storage if that is how it lies there."""
    data: memoryview = tensor.detach().contiguous().numpy().reshape(-1).data
    return data.cast("B")


class Float16Bytes(ComputedBytes):
    """A float32 tensor as float16 in row-major order, converted when it is written.

    Finite numbers from some magnitude on become the lowest and highest float16. Infinities and NaN stay.

    Args:
        values: float32, of one dimension.
        saturates_from: that magnitude; infinite if there is none of it.
    """

    def __init__(self, values: torch.Tensor, saturates_from: float = math.inf) -> None:
        self._values = values
        self._saturates_from = saturates_from

    def __len__(self) -> int:
        return 2 * self._values.numel()

    def __getitem__(self, place: slice, /) -> memoryview:
        start, end, _ = place.indices(len(self))
        half = self._converted(start // 2, (end + 1) // 2)
        return tensor_bytes(half)[start % 2 : start % 2 + end - start]

    def _converted(self, start: int, end: int) -> torch.Tensor:
        values = self._values[start:end]
        half = values.to(torch.float16)
        if self._saturates_from < math.inf:
            size = values.abs()
            lost = (size >= self._saturates_from) & (size < math.inf)
            half[lost] = values[lost].sign().to(torch.float16) * FLOAT16_MAX
        return half


class Int4Bytes(ComputedBytes):
    """An int8 tensor as int4, two numbers in a byte, packed when it is written.

    The first of two is in the low half, each in two's complement.

    Args:
        tensor: all values in [-8, 8); the last dimension is even.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        self._values = tensor.detach().reshape(-1)

    def __len__(self) -> int:
        return self._values.numel() // 2

    def __getitem__(self, place: slice, /) -> memoryview:
        start, end, _ = place.indices(len(self))
        pairs = self._values[2 * start : 2 * end].view(-1, 2)
        return tensor_bytes((pairs[:, 0] & 15) | (pairs[:, 1] << 4))


def to_float16(tensor: torch.Tensor, saturates: bool = False) -> tuple[Float16Bytes, str]:
    """A float32 tensor as float16, and what is out of range.

    The lowest and highest float32, which models write for "masked", become the lowest and highest float16, as
    `torch.finfo` would have given them in that type.

    Args:
        tensor: any shape.
        saturates: whether all other finite values beyond float16 do so too.

    Returns:
        Its bytes, to be converted when they are written, and a text that names the count and the largest of
        the finite values beyond +-65504 that do not; empty if there are none.
    """
    flat = tensor.detach().reshape(-1)
    if _fits(flat):
        return Float16Bytes(flat), ""
    if saturates:
        return Float16Bytes(flat, _OVERFLOW), ""
    count, worst = 0, 0.0
    for values in torch.split(flat, _STEP):
        size = values.abs()
        rest = values[(size >= _OVERFLOW) & (size < FLOAT32_MAX)]
        count += rest.numel()
        if rest.numel():
            worst = max(worst, rest[rest.abs().argmax()].item(), key=abs)
    number = "1 value" if count == 1 else f"{count} values"
    lost = f"{number} beyond float16 (+-{FLOAT16_MAX:g}), the largest {worst:g}" if count else ""
    return Float16Bytes(flat, FLOAT32_MAX), lost


def is_beyond_float16(number: float) -> bool:
    """Whether a finite number rounds to an infinite float16."""
    return _OVERFLOW <= abs(number) < math.inf


def kept_from_zero(number: float) -> float:
    """A number that float16 would round to zero as the smallest that it has; any other as it is.

    What is so small guards a division or a logarithm, such as the epsilon of a normalisation: as zero it
    would not.
    """
    return math.copysign(FLOAT16_LEAST, number) if 0 < abs(number) < FLOAT16_LEAST else number


def _fits(values: torch.Tensor) -> bool:
    """Whether all values are finite in float16: one pass that allocates nothing."""
    if values.numel() == 0:
        return True
    low, high = (value.item() for value in values.aminmax())
    return low > -_OVERFLOW and high < _OVERFLOW  # not so for NaN
