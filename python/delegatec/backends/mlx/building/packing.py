# SPDX-License-Identifier: Apache-2.0
"""Quantized weights in MLX's affine format: w = scale * q + bias, with one scale and one bias for each group.

q is unsigned and has 2 to 8 bits. A row is a stream of bits, those of the first value first, the lowest bit
first; its bytes are those of little-endian uint32. Groups are of 32, 64 or 128 columns. (Measured:
`mlx.core.dequantize` of 0.31.2 returns these values.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch

from delegatec.backends.common.arranged import ArrangedElements
from delegatec.delegation import ComputedBytes
from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.edge.quantization.constant import QuantizedConstant

BITS: Final = (2, 3, 4, 5, 6, 8)
GROUPS: Final = (128, 64, 32)
MODE: Final = "affine"
WORD: Final = 32
"""Bits of an element of a packed weight."""


@dataclass(frozen=True)
class Packing:
    """How a quantized matrix, or several, are packed.

    Attributes:
        bits: of a value.
        offset: what is added to values, so that they are unsigned.
        group: columns with one scale.
        repeats: how often each element of a dimension of the scales occurs.
    """

    bits: int
    offset: int
    group: int
    repeats: tuple[int, ...]


def packing_of(matrix: QuantizedConstant) -> Packing | None:
    """Returns how to pack matrices; None if their groups or values do not fit the format."""
    *rows, columns = matrix.block
    group = next((each for each in GROUPS if columns % each == 0), None)
    low, high = matrix.range
    bits = next((each for each in BITS if high - low < 1 << each), None)
    if group is None or bits is None:
        return None
    half = 1 << (bits - 1)
    # Scales times a power of two are exact in any dtype.
    offset = next((each for each in (half, 0) if low + each >= 0 and high + each < 2 * half), -low)
    return Packing(bits, offset, group, (*rows, columns // group))


def words(columns: int, bits: int) -> int:
    """Returns the number of uint32 in a row."""
    return columns * bits // WORD


class PackedBytes(ComputedBytes):
    """Matrices of integers as unsigned ones of a few bits, packed when they are written.

    Args:
        matrix: integers of any strides; the bits of a row fill whole words.
        packing: how to pack them.
    """

    def __init__(self, matrix: torch.Tensor, packing: Packing) -> None:
        self._elements = ArrangedElements(matrix, lambda each: each)
        self._offset, self._bits = packing.offset, packing.bits
        self._size, self._count = unit_of(packing.bits)

    def __len__(self) -> int:
        return self._elements.numel() * self._bits // 8

    def __getitem__(self, section: slice, /) -> memoryview:
        start, end, _ = section.indices(len(self))
        first, last = start // self._size, -(-end // self._size)
        values = self._elements[slice(first * self._count, last * self._count)]
        offset = start - first * self._size
        return tensor_bytes(self._packed(values))[offset : offset + end - start]

    def _packed(self, values: torch.Tensor) -> torch.Tensor:
        wide = torch.uint8 if self._size == 1 else torch.int64
        if wide == torch.uint8 and values.dtype == torch.int8:
            # Bytes wrap around.
            unsigned = values.view(torch.uint8) + self._offset % 256
        else:
            unsigned = (values.to(torch.int64) + self._offset).to(wide)
        if self._count == 1:
            return unsigned
        parts = unsigned.view(-1, self._count)
        units = parts[:, 0].clone()
        for index in range(1, self._count):
            units |= parts[:, index] << (index * self._bits)
        if self._size == 1:
            return units
        return torch.stack([(units >> (8 * byte)).to(torch.uint8) for byte in range(self._size)], 1)


def unit_of(bits: int) -> tuple[int, int]:
    """Returns the smallest number of bytes that hold whole values, and how many."""
    total = math.lcm(8, bits)
    return total // 8, total // bits


def unpacked(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """Returns the integers of a packed weight, as uint8: [..., columns] of [..., words]."""
    size, count = unit_of(bits)
    data = packed.contiguous().view(torch.uint8)
    if bits == 8:
        return data
    units = data.view(*data.shape[:-1], -1, size)
    wide = units[..., 0] if size == 1 else units[..., 0].to(torch.int64)
    for byte in range(1, size):
        wide = wide | (units[..., byte].to(torch.int64) << (8 * byte))
    values = [((wide >> (index * bits)) & ((1 << bits) - 1)).to(torch.uint8) for index in range(count)]
    return torch.stack(values, -1).flatten(-2)
