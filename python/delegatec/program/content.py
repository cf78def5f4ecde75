# SPDX-License-Identifier: Apache-2.0
"""Finds equal runs of bytes without hashing all of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from delegatec.delegation import Part

# What is looked at of every run: so many places of so many bytes. Only runs that agree there are compared.
_PLACES: Final = 16
_PLACE_BYTES: Final = 32
# Bytes that are compared at a time, so that the comparison needs little memory.
_STEP: Final = 1 << 20

Parts = Sequence[Part]


class ContentIndex:
    """Runs of bytes, each a sequence of parts, by content. Runs that are split otherwise count as others."""

    def __init__(self) -> None:
        self._runs: dict[Hashable, list[tuple[Parts, int]]] = {}

    def find_or_add(self, parts: Parts, index: int) -> int:
        """The number of a run with this content.

        Args:
            parts: the bytes; kept, not copied.
            index: the run's number, if there is none yet with its content.
        """
        alike = self._runs.setdefault(tuple(map(_fingerprint, parts)), [])
        for other, number in alike:
            if all(map(equal_bytes, parts, other)):
                return number
        alike.append((parts, index))
        return index


def _fingerprint(part: Part) -> Hashable:
    size = len(part)
    step = max(1, size // _PLACES)
    return size, b"".join(part[start : start + _PLACE_BYTES] for start in range(0, size, step))


def equal_bytes(first: Part, second: Part) -> bool:
    """Whether two runs of bytes have the same content."""
    if len(first) != len(second):
        return False
    return all(
        np.array_equal(_array(first[start : start + _STEP]), _array(second[start : start + _STEP]))
        for start in range(0, len(first), _STEP)
    )


def _array(data: bytes | memoryview) -> np.ndarray:
    # numpy compares whole words; a memoryview byte by byte
    return np.frombuffer(data, np.uint8)
