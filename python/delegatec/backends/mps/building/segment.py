# SPDX-License-Identifier: Apache-2.0
"""The constant segment of a blob in the making."""

from __future__ import annotations

from delegatec.delegation import Part


class Segment:
    """Constants one after the other, each at a multiple of its elements' size.

    Attributes:
        parts: what the segment is made of.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._size = 0

    def add(self, data: Part, alignment: int) -> int:
        """Adds bytes at a multiple of an alignment, in bytes.

        Returns:
            Where they begin.
        """
        gap = -self._size % alignment
        if gap:  # The runtime hands MPSGraph the address as it is.
            self.parts.append(bytes(gap))
        start = self._size + gap
        self.parts.append(data)
        self._size = start + len(data)
        return start
