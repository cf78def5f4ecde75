# SPDX-License-Identifier: Apache-2.0
"""CRC-32 of byte ranges of a file, from those of ranges inside them if known."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

# The polynomial of CRC-32, reflected: the highest bit is the coefficient of x^0.
_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 1 << 31
_CHUNK: Final = 1 << 18


def checksums(
    path: Path | str, ranges: Iterable[tuple[int, int]], known: Mapping[tuple[int, int], int]
) -> list[int]:
    """Returns the checksums of ranges of a file, which is read only where they are unknown.

    Args:
        path: the file.
        ranges: offset and size of each range.
        known: (offset, size) -> checksum of ranges that do not overlap.
    """
    ordered = sorted((*location, checksum) for location, checksum in known.items())
    found = []
    with open(path, "rb") as file:
        for offset, size in ranges:
            position, end, checksum = offset, offset + size, 0
            index = bisect_left(ordered, (offset,))
            while index < len(ordered) and sum(ordered[index][:2]) <= end:
                start, length, inner = ordered[index]
                checksum = combined(_read(file, position, start, checksum), inner, length)
                position, index = start + length, index + 1
            found.append(_read(file, position, end, checksum))
    return found


def _read(file: BinaryIO, start: int, end: int, before: int) -> int:
    """Continues a checksum with the bytes of a range."""
    file.seek(start)
    while start < end and (chunk := file.read(min(_CHUNK, end - start))):
        before = zlib.crc32(chunk, before)
        start += len(chunk)
    return before


def combined(first: int, second: int, size: int) -> int:
    """Returns the checksum of two byte sequences, one after the other.

    A checksum is a polynomial modulo that of CRC-32; appending a byte multiplies it by x^8.

    Args:
        first: checksum of the first one.
        second: checksum of the second one.
        size: number of bytes of the second one.
    """
    return _product(_power(8 * size), first) ^ second


@cache
def _power(exponent: int) -> int:
    """Returns x to a power."""
    if exponent == 0:
        return _ONE
    root = _power(exponent // 2)
    square = _product(root, root)
    return _times_x(square) if exponent % 2 else square


def _product(first: int, second: int) -> int:
    product = 0
    while first:
        if first & _ONE:
            product ^= second
        first = first << 1 & 0xFFFFFFFF
        second = _times_x(second)
    return product


def _times_x(value: int) -> int:
    return value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
