# SPDX-License-Identifier: Apache-2.0
"""Allocations that tensors share if their lives do not overlap.

Larger tensors come first. A tensor takes an allocation that is free during its life, the smallest of them.
If none is free, two allocations may exchange some of their tensors to free one: those of one that overlap the
tensor, those of the other that overlap these, and so on. This may be worth it even if one of them grows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

# Limits the search for exchanges, so that sharing takes linear time.
_TRIALS_PER_TENSOR: Final = 256


@dataclass(frozen=True)
class Life:
    """The life of a tensor.

    Attributes:
        id: of its value.
        size: in bytes.
        first: index of the call that computes it.
        last: index of the last call that uses it.
    """

    id: int
    size: int
    first: int
    last: int

    def overlaps(self, other: Life) -> bool:
        """Whether both are alive at one time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(eq=False)
class Allocation:
    """Memory of tensors whose lives do not overlap.

    Attributes:
        lives: of its tensors, in order of time.
        size: of the largest tensor so far, in bytes.
    """

    lives: list[Life] = field(default_factory=list)
    size: int = 0

    def overlapping(self, life: Life) -> Sequence[Life]:
        """Returns the lives that overlap another one."""
        end = start = bisect_right(self.lives, life.last, key=_first)
        while start and self.lives[start - 1].last >= life.first:
            start -= 1
        return self.lives[start:end]

    def add(self, life: Life) -> None:
        """Adds a life that overlaps none."""
        self.lives.insert(bisect_right(self.lives, life.first, key=_first), life)
        self.size = max(self.size, life.size)

    def remove(self, life: Life) -> None:
        """Removes a life."""
        del self.lives[bisect_left(self.lives, life.first, key=_first)]


def allocate(lives: Iterable[Life]) -> list[Allocation]:
    """Returns allocations for all lives."""
    ordered = sorted(lives, key=lambda life: (-life.size, life.first, life.id))
    search = _Search(_TRIALS_PER_TENSOR * len(ordered))
    for life in ordered:
        search.add(life)
    return search.allocations


def _first(life: Life) -> int:
    return life.first


@dataclass(frozen=True)
class _Exchange:
    """Lives that leave an allocation for another one, which then frees it for a tensor, and those that come.

    Attributes:
        growth: bytes that both need besides.
    """

    chosen: Allocation
    other: Allocation
    leaving: frozenset[Life]
    coming: frozenset[Life]
    growth: int

    def apply(self) -> None:
        moves = ((self.chosen, self.other, self.leaving), (self.other, self.chosen, self.coming))
        for source, _, lives in moves:
            for life in lives:
                source.remove(life)
        for _, target, lives in moves:
            for life in lives:
                target.add(life)


class _Search:
    def __init__(self, trials: int) -> None:
        self.allocations: list[Allocation] = []
        self._trials = trials

    def add(self, life: Life) -> None:
        """Adds a life that is not larger than those before."""
        overlapping = {each: each.overlapping(life) for each in self.allocations}
        free = [each for each, lives in overlapping.items() if not lives]
        chosen = min(free, key=lambda each: each.size) if free else self._freed(life, overlapping)
        if chosen is None:
            chosen = Allocation()
            self.allocations.append(chosen)
        chosen.add(life)

    def _freed(self, life: Life, overlapping: Mapping[Allocation, Sequence[Life]]) -> Allocation | None:
        """Returns an allocation after the exchange with the least growth, if that is less than a new one."""
        best: _Exchange | None = None
        for chosen, other in permutations(sorted(overlapping, key=lambda each: each.size), 2):
            if self._trials < 0:
                break
            found = self._exchange(chosen, other, life, overlapping)
            if found and found.growth < (best.growth if best else life.size):
                best = found
            if best and not best.growth:
                break
        if best is None:
            return None
        best.apply()
        return best.chosen

    def _exchange(
        self,
        chosen: Allocation,
        other: Allocation,
        life: Life,
        overlapping: Mapping[Allocation, Sequence[Life]],
    ) -> _Exchange | None:
        """Returns the exchange that frees an allocation during a life, if there is one."""
        # most often, what would have to come overlaps the life, too
        if any(each.overlaps(rest) for each in overlapping[chosen] for rest in overlapping[other]):
            self._trials -= 1
            return None
        leaving, coming = {*overlapping[chosen]}, set[Life]()
        queue = [*leaving]
        while queue:
            each = queue.pop()
            self._trials -= 1
            is_leaving = each in leaving
            if self._trials < 0 or (not is_leaving and each.overlaps(life)):
                return None
            others, found = (other, coming) if is_leaving else (chosen, leaving)
            neighbors = {*others.overlapping(each)} - found
            found |= neighbors
            queue += neighbors
        growth = sum(
            max(0, *(each.size - target.size for each in moved))
            for target, moved in ((other, leaving), (chosen, coming))
            if moved
        )
        return _Exchange(chosen, other, frozenset(leaving), frozenset(coming), growth)
