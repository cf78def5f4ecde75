# SPDX-License-Identifier: Apache-2.0
"""The constant segment of a blob under construction."""

from __future__ import annotations

from delegatec.delegation import Part


class Segment:
    """Consecutive constants, each aligned to its elements' size.

    Attributes:
        parts: of the segment.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._size = 0

    def add(self, data: Part, alignment: int) -> int:
        """Adds aligned bytes, and returns their offset."""
        gap = -self._size % alignment
        if gap:  # The runtime passes the address to MPSGraph unchanged.
            self.parts.append(bytes(gap))
        start = self._size + gap
        self.parts.append(data)
        self._size = start + len(data)
        return start
