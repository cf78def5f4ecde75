# SPDX-License-Identifier: Apache-2.0
"""Memory planning: offsets in one arena for storages that live at different times.

The sum of what is alive at one time, at its largest, bounds every plan from below. Two sweeps through time
that hand out the smallest hole that fits cost next to nothing and often reach it. If they do not, storages
are placed one by one, each at the lowest offset that is free while it lives; that reaches or nearly reaches
the bound if they are placed in a good order, and which order is good depends on the model: so several are
tried, each is improved by placing first what did not fit, and the smallest arena is kept. The work is
bounded by a multiple of the number of storages, so that a program of a hundred thousand plans in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from delegatec.program.alignment import align
from delegatec.program.planning.free_list import FreeList

# Alignment in bytes of every planned tensor; the runtime's kernels and delegates may rely on it.
ALIGNMENT: Final = 16

# Where storages lie: memory that the caller brings, the arena of the method, which is what is planned here,
# and the arena of the state that methods share. The last two are the memory ids of a program.
CALLERS: Final = 0
PLANNED: Final = 1
STATE: Final = 2


@dataclass
class Storage:
    """Bytes that one value, or several that are views of each other, live in.

    Attributes:
        name: the value that it was made for.
        size: in bytes.
        first: position of the instruction that writes it; -1 for an input.
        last: position of the last instruction that reads it.
        offset: into the arena; -1 before planning.
        arena: where it lies, one of the constants above.
    """

    name: str
    size: int
    first: int
    last: int
    offset: int = -1
    arena: int = PLANNED


@dataclass
class MemoryPlan:
    """The arena of one method.

    Attributes:
        arena_size: bytes.
        lower_bound: the most bytes alive at one time, each storage rounded up to the alignment: no plan
            without recomputation or in-place kernels can be smaller.
        order: name of the order whose plan was kept.
        storages: every storage with its offset.
    """

    arena_size: int = 0
    lower_bound: int = 0
    order: str = ""
    storages: list[Storage] = field(default_factory=list)


def _size(storage: Storage) -> int:
    return align(storage.size, ALIGNMENT)


# Name -> sort key. The definition order breaks ties, so that the plan is a function of the program.
_ORDERS: Final[dict[str, Callable[[Storage], Any]]] = {
    "largest": lambda s: (-_size(s), s.first, s.last),
    "longest": lambda s: (s.first - s.last, -_size(s), s.first),
    "largest area": lambda s: (_size(s) * (s.first - s.last - 1), s.first),
    "definition": lambda s: (s.first, -_size(s), s.last),
    "last use": lambda s: (-s.last, -_size(s), s.first),
}

# How often an order is improved. Few models need more than three; the last ones cost little.
_IMPROVEMENTS: Final = 24

# How many times a storage may be compared with one that lives beside it, over all orders: this much, or
# this much for each storage.
_WORK: Final = 2_000_000
_WORK_EACH: Final = 30

# Offset of each storage, and the size of the arena.
_Placed = tuple[list[int], int]


def plan_memory(storages: Sequence[Storage]) -> MemoryPlan:
    """Gives every storage an offset.

    Args:
        storages: their `offset` is set.

    Returns:
        The smallest plan of all that were tried; the first of those that are equal.
    """
    plan = MemoryPlan(lower_bound=_lower_bound(storages), storages=list(storages))
    best: list[int] = []
    for name, (offsets, arena_size) in _attempts(storages, plan.lower_bound):
        if not plan.order or arena_size < plan.arena_size:
            plan.arena_size, plan.order, best = arena_size, name, offsets
        if plan.arena_size == plan.lower_bound:
            break
    for storage, offset in zip(storages, best, strict=True):
        storage.offset = offset
    return plan


def _attempts(storages: Sequence[Storage], bound: int) -> Iterator[tuple[str, _Placed]]:
    """Plans by different orders, the cheap ones first."""
    times = [(storage.first, storage.last) for storage in storages]
    sizes = [_size(storage) for storage in storages]
    yield "forwards", _sweep(sizes, times)
    yield "backwards", _sweep(sizes, [(-last, -first) for first, last in times])
    work = max(_WORK, _WORK_EACH * len(storages))
    neighbours = _neighbours(times, work)
    if neighbours is None:
        return
    each = len(storages) + sum(map(len, neighbours))
    for name, key in _ORDERS.items():
        order = sorted(range(len(storages)), key=lambda i: key(storages[i]))
        for _ in range(_IMPROVEMENTS):
            work -= each
            if work < 0:
                return
            offsets, arena_size = _first_fit(sizes, neighbours, order)
            yield name, (offsets, arena_size)
            # those that stick out are placed first in the next round
            order.sort(key=lambda i: offsets[i] + sizes[i] <= bound)


def _lower_bound(storages: Sequence[Storage]) -> int:
    steps: dict[int, int] = {}
    for storage in storages:
        steps[storage.first] = steps.get(storage.first, 0) + _size(storage)
        steps[storage.last + 1] = steps.get(storage.last + 1, 0) - _size(storage)
    alive = bound = 0
    for time in sorted(steps):
        alive += steps[time]
        bound = max(bound, alive)
    return bound


def _sweep(sizes: Sequence[int], times: Sequence[tuple[int, int]]) -> _Placed:
    """Places storages as they begin to live, each into the smallest hole that fits."""
    offsets = [0] * len(sizes)
    births = sorted(range(len(sizes)), key=lambda i: (times[i][0], -times[i][1], -sizes[i]))
    deaths = sorted(range(len(sizes)), key=lambda i: times[i][1])
    memory = FreeList()
    dead = 0
    for index in births:
        while times[deaths[dead]][1] < times[index][0]:
            memory.give(offsets[deaths[dead]], sizes[deaths[dead]])
            dead += 1
        offsets[index] = memory.take(sizes[index])
    return offsets, memory.size


def _neighbours(times: Sequence[tuple[int, int]], most: int) -> list[list[int]] | None:
    """For each storage those that live at a time when it lives; None if they are more than `most` in all."""
    neighbours: list[list[int]] = [[] for _ in times]
    alive: list[int] = []
    for index in sorted(range(len(times)), key=lambda i: times[i]):
        first = times[index][0]
        alive = [other for other in alive if times[other][1] >= first]
        most -= 2 * len(alive)
        if most < 0:
            return None
        neighbours[index] = list(alive)
        for other in alive:
            neighbours[other].append(index)
        alive.append(index)
    return neighbours


def _first_fit(sizes: Sequence[int], neighbours: Sequence[Sequence[int]], order: Sequence[int]) -> _Placed:
    """Places storages one by one, each at the lowest offset that is free while it lives."""
    offsets = [-1] * len(sizes)
    arena_size = 0
    for index in order:
        size = sizes[index]
        offset = 0
        for start, other in sorted(
            (offsets[n], n) for n in neighbours[index] if offsets[n] >= 0 and sizes[n]
        ):
            if start - offset >= size:
                break
            offset = max(offset, start + sizes[other])
        offsets[index] = offset
        arena_size = max(arena_size, offset + size)
    return offsets, arena_size
