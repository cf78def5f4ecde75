# SPDX-License-Identifier: Apache-2.0
"""Deduplication of byte sequences; only those of which many have equal samples are hashed completely."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from delegatec.delegation import ComputedBytes, Part
from delegatec.delegation.protocol.parts import read

# Size of the samples of every sequence: at its start, in the middle, and at its end. Only those with equal
# samples are compared. Each sample of a mapped file makes its surroundings resident.
_SAMPLE_BYTES: Final = 192
# Number of different sequences with equal samples that are compared one by one; more are found by checksum.
_COMPARED: Final = 4
# Number of bytes to compare at a time, which bounds memory.
_CHUNK: Final = 1 << 20

Parts = Sequence[Part]


class ContentIndex:
    """An index of byte sequences, each a sequence of parts, by content and split into parts."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, list[tuple[Parts, int]]] = {}
        # the first sequence of each size, whose bytes are read once there is another
        self._firsts: dict[Hashable, tuple[Parts, int] | None] = {}
        # samples of the sequences that are also in `_runs` by samples and checksum
        self._indexed: set[Hashable] = set()

    def find_or_add(self, parts: Parts, index: int) -> int:
        """Returns the index of a sequence with this content.

        Args:
            parts: the bytes; kept, not copied.
            index: the index if the content is new.
        """
        sizes = tuple(map(len, parts))
        if sizes not in self._firsts:
            self._firsts[sizes] = (parts, index)
            return index
        first, self._firsts[sizes] = self._firsts[sizes], None
        if first is not None:
            self._runs[tuple(map(_fingerprint, first[0]))] = [first]
        alike = self._alike(parts)
        for other, known in alike:
            if all(map(equal_bytes, parts, other)):
                return known
        alike.append((parts, index))
        return index

    def _alike(self, parts: Parts) -> list[tuple[Parts, int]]:
        """Returns the sequences to compare with; the caller adds new ones to it."""
        key = tuple(map(_fingerprint, parts))
        alike = self._runs.setdefault(key, [])
        if len(alike) < _COMPARED:
            return alike
        if key not in self._indexed:
            self._indexed.add(key)
            for entry in alike:
                self._runs.setdefault((key, _checksum(entry[0])), []).append(entry)
        return self._runs.setdefault((key, _checksum(parts)), [])


def _fingerprint(part: Part) -> Hashable:
    size = len(part)
    # each read of a computed part computes more than it returns
    starts = (0,) if isinstance(part, ComputedBytes) else (0, size // 2, max(0, size - _SAMPLE_BYTES))
    return size, b"".join(read(part, start, start + _SAMPLE_BYTES) for start in starts if start < size)


def _checksum(parts: Parts) -> int:
    checksum = 0
    for part in parts:
        for start in range(0, len(part), _CHUNK):
            checksum = zlib.crc32(read(part, start, start + _CHUNK), checksum)
    return checksum


def equal_bytes(first: Part, second: Part) -> bool:
    """Whether two byte sequences are equal."""
    if len(first) != len(second):
        return False
    return all(
        np.array_equal(
            _array(read(first, start, start + _CHUNK)), _array(read(second, start, start + _CHUNK))
        )
        for start in range(0, len(first), _CHUNK)
    )


def _array(data: bytes | memoryview) -> np.ndarray:
    # numpy compares words; memoryview compares bytes
    return np.frombuffer(data, np.uint8)
