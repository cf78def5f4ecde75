# SPDX-License-Identifier: Apache-2.0
"""Memory that is handed out and taken back, each in logarithmic time."""

from __future__ import annotations

from bisect import bisect_left, insort


class FreeList:
    """An arena that grows: holes are joined with their neighbours, and the smallest that fits is given.

    Attributes:
        size: of the arena: the end of the highest byte that was ever handed out.
    """

    def __init__(self) -> None:
        self.size = 0
        self._holes: list[tuple[int, int]] = []  # (size, offset), sorted
        self._ends: dict[int, int] = {}  # offset of a hole -> its end
        self._starts: dict[int, int] = {}  # end of a hole -> its offset

    def take(self, size: int) -> int:
        """Offset of `size` bytes that nobody has; the lowest of the holes that fit best."""
        if size == 0:
            return 0
        at = bisect_left(self._holes, (size, 0))
        if at < len(self._holes):
            _, start = self._holes[at]
            end = self._remove(start)
            if end - start > size:
                self._insert(start + size, end)
            return start
        # what is free at the end of the arena is its beginning
        start = self._starts.get(self.size, self.size)
        if start < self.size:
            self._remove(start)
        self.size = start + size
        return start

    def give(self, offset: int, size: int) -> None:
        """Takes bytes back that `take` gave."""
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
        """Forgets a hole; its end."""
        end = self._ends.pop(start)
        del self._starts[end]
        del self._holes[bisect_left(self._holes, (end - start, start))]
        return end
