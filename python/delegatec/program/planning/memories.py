# SPDX-License-Identifier: Apache-2.0
"""Memory planning for several memories of given sizes: hot values in the first ones.

Each byte that an instruction reads or writes is traffic. The plan with the least traffic in the last memory
wins, then in the one before it, and so on. Three methods choose what a memory gets:

1. One memory after another is filled with storages that fit by bytes alive at one time; `plan_memory` chooses
   their offsets.
2. Storages are placed one by one, each at the lowest free offset of the first memory that has one. This finds
   plans when all memories are nearly full.
3. The largest storages are placed first, in blocks.

The first two try several orders of storages. Then gaps are filled with storages of later memories, and
storages are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from delegatec.program.alignment import align
from delegatec.program.options import Memory
from delegatec.program.planning.blocks import place_in_blocks
from delegatec.program.planning.memory_plan import (
    ALIGNMENT,
    MemoryPlan,
    Storage,
    lower_bound,
    overlapping,
    plan_memory,
)

# Name -> sort key. The definition order breaks ties, so that the plan is deterministic.
_ORDERS: Final[dict[str, Callable[[Storage], Any]]] = {
    "hottest": lambda s: (-s.size * s.uses, s.first),
    "densest": lambda s: (-s.uses / (s.last - s.first + 1), -s.size, s.first),
    "most used": lambda s: (-s.uses, -s.size, s.first),
    "largest": lambda s: (-s.size, s.first, s.last),
    "longest": lambda s: (s.first - s.last, -s.size, s.first),
    "definition": lambda s: (s.first, -s.size, s.last),
}
# Maximum number of storages for blocks, whose work is quadratic.
_MOST_IN_BLOCKS: Final = 2000
# Maximum number of repetitions of an order, with the storages first that did not fit.
_REPETITIONS: Final = 8
# Maximum number of storages that are moved to earlier memories in exchange for others, tried and undone.
_EXCHANGES: Final = 400
# Number of plans, the best ones, that are tried with exchanges.
_EXCHANGED: Final = 8
# Maximum number of pairs of storages that are alive at one time, for the methods that compare them.
_PAIRS: Final = 2_000_000
# Maximum number of pairs that are looked at while orders are repeated, and as many for exchanges.
_WORK: Final = 2_000_000
# Maximum number of storages, over all orders; one order is always tried.
_ORDERED: Final = 12_000


@dataclass
class _Attempt:
    """A plan under construction.

    Attributes:
        order: name of the order.
        memory: index of the memory of each storage; -1 for none.
        offset: its offset there.
    """

    order: str
    memory: list[int]
    offset: list[int]


def plan_memories(
    storages: Sequence[Storage], memories: Sequence[Memory], reserved: Sequence[int] = ()
) -> MemoryPlan:
    """Assigns memories and offsets to storages.

    Args:
        storages: the storages; sets their `memory` and `offset`.
        memories: the memories in order of preference, at least one.
        reserved: bytes of each memory that are taken already; none by default.

    Returns:
        The best plan. Its `unplaced` are the storages that fit nowhere.
    """
    taken = [*reserved] or [0] * len(memories)
    capacities = [
        max(0, (memory.bytes - used) // ALIGNMENT * ALIGNMENT)
        for memory, used in zip(memories, taken, strict=True)
    ]
    planner = _Planner(storages, capacities)
    attempts = []
    for attempt in planner.attempts():
        attempts.append(attempt)
        if not any(planner.cost(attempt)[0]):
            break  # nothing is in a later memory
    attempts = sorted(attempts, key=planner.cost)[:_EXCHANGED]
    for attempt in attempts:
        planner.exchange(attempt)
    return planner.plan(min(attempts, key=planner.cost))


class _Planner:
    """The storages, with aligned sizes, and the sizes of the memories."""

    def __init__(self, storages: Sequence[Storage], capacities: Sequence[int]) -> None:
        self._storages = storages
        self._capacities = capacities
        self._sizes = [align(storage.size, ALIGNMENT) for storage in storages]
        moments = sorted({each for storage in storages for each in (storage.first, storage.last)})
        index_of = {moment: index for index, moment in enumerate(moments)}
        self._moments = len(moments)
        self._alive = [slice(index_of[s.first], index_of[s.last] + 1) for s in storages]
        self._overlapping = overlapping([(s.first, s.last) for s in storages], _PAIRS)
        self._each = len(storages) + sum(map(len, self._overlapping or []))

    def attempts(self) -> Iterator[_Attempt]:
        """Yields plans; the first ones are good if memory is plentiful."""
        if len(self._storages) <= _MOST_IN_BLOCKS:
            attempt = self._in_blocks()
            self._promote(attempt)
            yield attempt
        work = _WORK
        most = max(1, _ORDERED // max(1, len(self._storages)))
        for name, key in [*_ORDERS.items()][:most]:
            order = sorted(range(len(self._storages)), key=lambda i: key(self._storages[i]))
            attempt = self._filled(name, order)
            self._promote(attempt)
            yield attempt
            if self._overlapping is None:
                continue
            for _ in range(_REPETITIONS):
                work -= self._each
                if work < 0:
                    break
                attempt = self._one_by_one(name, order)
                self._promote(attempt)
                yield attempt
                again = sorted(order, key=lambda i: attempt.memory[i] >= 0)
                if again == order:
                    break
                order = again

    def cost(self, attempt: _Attempt) -> tuple[tuple[int, ...], int]:
        """Returns what is without memory, the traffic of the memories from the last one, and their sizes."""
        traffic = [0] * len(self._capacities)
        without = 0
        for storage, memory in zip(self._storages, attempt.memory, strict=True):
            if memory < 0:
                without += storage.size
            else:
                traffic[memory] += storage.size * storage.uses
        return (without, *reversed(traffic[1:])), sum(self._used(attempt))

    def exchange(self, attempt: _Attempt) -> None:
        """Moves storages to earlier memories in exchange for others, as long as the cost decreases."""
        if self._overlapping is None:
            return
        cost, tries = self.cost(attempt), min(_EXCHANGES, _WORK // (_EXCHANGED * max(1, self._each)))
        candidates = [index for index, memory in enumerate(attempt.memory) if memory != 0]
        candidates.sort(key=lambda i: (attempt.memory[i] >= 0, -self._heat(i), i))
        while candidates and tries:
            index = candidates.pop(0)
            memory = attempt.memory[index]
            for earlier in range(memory if memory >= 0 else len(self._capacities)):
                tries -= 1
                before = [*attempt.memory], [*attempt.offset]
                moved = self._displace(attempt, index, earlier)
                after = self.cost(attempt)
                if after < cost:
                    cost = after
                    candidates += [each for each in moved if each not in candidates]
                    break
                attempt.memory, attempt.offset = before

    def _displace(self, attempt: _Attempt, index: int, memory: int) -> list[int]:
        """Places a storage where the coldest ones are in a memory, and these elsewhere; returns them."""
        assert self._overlapping is not None
        others = [n for n in self._overlapping[index] if attempt.memory[n] == memory and self._sizes[n]]
        starts = {
            0,
            *(attempt.offset[n] + self._sizes[n] for n in others),
            *(attempt.offset[n] for n in others),
        }
        best: tuple[int, int, list[int]] | None = None
        for start in sorted(starts):
            end = start + self._sizes[index]
            if end > self._capacities[memory]:
                break
            hit = [
                n for n in others if attempt.offset[n] < end and start < attempt.offset[n] + self._sizes[n]
            ]
            heat = sum(map(self._heat, hit))
            if best is None or heat < best[0]:
                best = heat, start, hit
        if best is None:
            return []
        _, attempt.offset[index], displaced = best
        attempt.memory[index] = memory
        for each in displaced:
            attempt.memory[each] = -1
        for each in sorted(displaced, key=lambda i: (-self._heat(i), i)):
            any(self._insert(attempt, each, other) for other in range(len(self._capacities)))
        self._promote(attempt)
        return displaced

    def _heat(self, index: int) -> int:
        return self._storages[index].size * self._storages[index].uses

    def plan(self, attempt: _Attempt) -> MemoryPlan:
        """Makes an attempt the plan of the storages."""
        for memory in range(len(self._capacities)):
            self._compact(attempt, memory)
        unplaced = []
        for storage, memory, offset in zip(self._storages, attempt.memory, attempt.offset, strict=True):
            storage.memory, storage.offset = max(0, memory) + 1, offset
            if memory < 0:
                unplaced.append(storage)
        sizes = self._used(attempt)
        return MemoryPlan(
            arena_size=sum(sizes),
            lower_bound=lower_bound(self._storages),
            order=attempt.order,
            storages=list(self._storages),
            sizes=sizes,
            unplaced=unplaced,
        )

    def _filled(self, name: str, order: Sequence[int]) -> _Attempt:
        """Fills one memory after another, by bytes alive at one time."""
        attempt = _Attempt(name, [-1] * len(order), [0] * len(order))
        left = [*order]
        for memory, capacity in enumerate(self._capacities):
            load = np.zeros(self._moments, dtype=np.int64)
            chosen = []
            for index in left:
                alive = load[self._alive[index]]
                if int(alive.max()) + self._sizes[index] <= capacity:
                    alive += self._sizes[index]
                    chosen.append(index)
            for index, offset in self._packed(chosen):
                if offset + self._sizes[index] <= capacity:
                    attempt.memory[index], attempt.offset[index] = memory, offset
            left = [index for index in left if attempt.memory[index] < 0]
            if self._overlapping is not None:
                for index in left:
                    self._insert(attempt, index, memory)
                left = [index for index in left if attempt.memory[index] < 0]
        return attempt

    def _one_by_one(self, name: str, order: Sequence[int]) -> _Attempt:
        attempt = _Attempt(name, [-1] * len(order), [0] * len(order))
        for index in order:
            any(self._insert(attempt, index, memory) for memory in range(len(self._capacities)))
        return attempt

    def _in_blocks(self) -> _Attempt:
        order = sorted(range(len(self._storages)), key=lambda i: (-self._storages[i].size, -i))
        placed = place_in_blocks(order, self._sizes, self._alive, self._capacities)
        memory, offset = ([each[part] for each in placed] for part in (0, 1))
        return _Attempt("in blocks", memory, offset)

    def _promote(self, attempt: _Attempt) -> None:
        """Moves storages, the hottest first, to earlier memories with a gap for them."""
        if self._overlapping is None:
            return
        by_heat = sorted(
            (index for index, memory in enumerate(attempt.memory) if memory != 0),
            key=lambda i: (-self._storages[i].size * self._storages[i].uses, i),
        )
        for index in by_heat:
            before = attempt.memory[index]
            for memory in range(before if before >= 0 else len(self._capacities)):
                if self._insert(attempt, index, memory):
                    break

    def _insert(self, attempt: _Attempt, index: int, memory: int) -> bool:
        """Places a storage at the lowest offset of a memory that is free in its lifetime, if there is one."""
        assert self._overlapping is not None
        size, offset = self._sizes[index], 0
        others = [n for n in self._overlapping[index] if attempt.memory[n] == memory and self._sizes[n]]
        others.sort(key=attempt.offset.__getitem__)
        for other in others:
            start = attempt.offset[other]
            if start - offset >= size:
                break
            offset = max(offset, start + self._sizes[other])
        if offset + size > self._capacities[memory]:
            return False
        attempt.memory[index], attempt.offset[index] = memory, offset
        return True

    def _compact(self, attempt: _Attempt, memory: int) -> None:
        """Plans a memory again, if it becomes smaller."""
        inside = [index for index, each in enumerate(attempt.memory) if each == memory]
        packed = self._packed(inside)
        if max((o + self._sizes[i] for i, o in packed), default=0) < self._used(attempt)[memory]:
            for index, offset in packed:
                attempt.offset[index] = offset

    def _packed(self, indices: Sequence[int]) -> list[tuple[int, int]]:
        """Returns the offsets of storages in one memory."""
        copies = [replace(self._storages[index]) for index in indices]
        plan_memory(copies)
        return [(index, copy.offset) for index, copy in zip(indices, copies, strict=True)]

    def _used(self, attempt: _Attempt) -> list[int]:
        used = [0] * len(self._capacities)
        for index, memory in enumerate(attempt.memory):
            if memory >= 0 and self._sizes[index]:
                used[memory] = max(used[memory], attempt.offset[index] + self._sizes[index])
        return used
