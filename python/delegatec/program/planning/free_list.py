# SPDX-License-Identifier: Apache-2.0
"""Best-fit allocation in logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, insort


class FreeList:
    """A growing arena: adjacent holes are merged, and allocations take the smallest hole that fits.

    Attributes:
        size: size of the arena: the highest end of any allocation so far.
    """

    def __init__(self) -> None:
        self.size = 0
        self._holes: list[tuple[int, int]] = []  # (size, offset), sorted
        self._ends: dict[int, int] = {}  # offset of a hole -> its end
        self._starts: dict[int, int] = {}  # end of a hole -> its offset

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes, and returns their offset: the lowest of the best-fitting holes."""
        if size == 0:
            return 0
        at = bisect_left(self._holes, (size, 0))
        if at < len(self._holes):
            _, start = self._holes[at]
            end = self._remove(start)
            if end - start > size:
                self._insert(start + size, end)
            return start
        # extend the hole at the end of the arena
        start = self._starts.get(self.size, self.size)
        if start < self.size:
            self._remove(start)
        self.size = start + size
        return start

    def free(self, offset: int, size: int) -> None:
        """Frees bytes that `allocate` returned."""
        if size == 0:
            return
        start, end = offset, offset + size
        if start in self._starts:
            start = self._starts[start]
            self._remove(start)
        if end in self._ends:
            end = self._remove(end)
        self._insert(start, end)

    def _insert(self, start: int, end: int) -> None:
        self._ends[start] = end
        self._starts[end] = start
        insort(self._holes, (end - start, start))

    def _remove(self, start: int) -> int:
        """Removes a hole, and returns its end."""
        end = self._ends.pop(start)
        del self._starts[end]
        del self._holes[bisect_left(self._holes, (end - start, start))]
        return end
