# SPDX-License-Identifier: Apache-2.0
"""Memory planning: offsets in an arena for storages with given lifetimes.

The maximum number of bytes alive at one time is a lower bound. Two best-fit sweeps through time are cheap and
often reach it. Otherwise, storages are placed one by one, each at the lowest offset that is free during its
lifetime, which reaches or nearly reaches the bound in a good order; which order is good depends on the model.
So several are tried, each is improved by placing first the storages that did not fit, and the smallest arena
wins. Work is bounded by a multiple of the number of storages: a program of a hundred thousand plans in
seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from delegatec.program.alignment import align
from delegatec.program.planning.free_list import FreeList

# Alignment in bytes of every planned tensor; the runtime's kernels and delegates may rely on it.
ALIGNMENT: Final = 16

# Locations of storages: memory of the caller, planned memory of the method, and the arena of shared state.
# The last two are the memory ids of a program that declares no memories.
CALLERS: Final = 0
PLANNED: Final = 1
STATE: Final = 2


@dataclass
class Storage:
    """Memory of a value, or of several values that are views of each other.

    Attributes:
        name: the value that it was created for.
        size: size in bytes.
        first: position of the instruction that writes it; -1 for an input.
        last: position of the last instruction that reads it.
        offset: offset in its memory; -1 before planning.
        arena: its location, one of the constants above.
        uses: number of reads and writes by instructions.
        memory: id of its memory in the program: of several for `PLANNED` if the user declares them.
    """

    name: str
    size: int
    first: int
    last: int
    offset: int = -1
    arena: int = PLANNED
    uses: int = 0
    memory: int = 1


@dataclass
class MemoryPlan:
    """The arena of one method.

    Attributes:
        arena_size: size in bytes, of all memories together.
        lower_bound: the most bytes alive at one time, each storage rounded up to the alignment: no plan
            without recomputation or in-place kernels can be smaller.
        order: name of the winning order.
        storages: all storages with their offsets.
        sizes: bytes of each memory, from memory id 1; one by default.
        unplaced: the storages that fit into no memory.
    """

    arena_size: int = 0
    lower_bound: int = 0
    order: str = ""
    storages: list[Storage] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    unplaced: list[Storage] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.sizes:
            self.sizes = [self.arena_size]


def _size(storage: Storage) -> int:
    return align(storage.size, ALIGNMENT)


# Name -> sort key. The definition order breaks ties, so that the plan is deterministic.
_ORDERS: Final[dict[str, Callable[[Storage], Any]]] = {
    "largest": lambda s: (-_size(s), s.first, s.last),
    "longest": lambda s: (s.first - s.last, -_size(s), s.first),
    "largest area": lambda s: (_size(s) * (s.first - s.last - 1), s.first),
    "definition": lambda s: (s.first, -_size(s), s.last),
    "last use": lambda s: (-s.last, -_size(s), s.first),
}

# Maximum number of improvements of an order. Few models need more than three; the last ones are cheap.
_IMPROVEMENTS: Final = 24

# Maximum number of comparisons of overlapping storages, over all orders: a constant, or a count per storage.
_WORK: Final = 2_000_000
_WORK_EACH: Final = 30

# Offset of each storage, and the size of the arena.
_Placed = tuple[list[int], int]


def plan_memory(storages: Sequence[Storage]) -> MemoryPlan:
    """Assigns offsets to storages.

    Args:
        storages: the storages; sets their `offset`.

    Returns:
        The smallest plan; the first one among equals.
    """
    plan = MemoryPlan(lower_bound=lower_bound(storages), storages=list(storages))
    best: list[int] = []
    for name, (offsets, arena_size) in _attempts(storages, plan.lower_bound):
        if not plan.order or arena_size < plan.arena_size:
            plan.arena_size, plan.order, best = arena_size, name, offsets
        if plan.arena_size == plan.lower_bound:
            break
    for storage, offset in zip(storages, best, strict=True):
        storage.offset = offset
    plan.sizes = [plan.arena_size]
    return plan


def _attempts(storages: Sequence[Storage], bound: int) -> Iterator[tuple[str, _Placed]]:
    """Yields plans for different orders, the cheap ones first."""
    times = [(storage.first, storage.last) for storage in storages]
    sizes = [_size(storage) for storage in storages]
    yield "forwards", _sweep(sizes, times)
    yield "backwards", _sweep(sizes, [(-last, -first) for first, last in times])
    work = max(_WORK, _WORK_EACH * len(storages))
    together = overlapping(times, work)
    if together is None:
        return
    each = len(storages) + sum(map(len, together))
    for name, key in _ORDERS.items():
        order = sorted(range(len(storages)), key=lambda i: key(storages[i]))
        for _ in range(_IMPROVEMENTS):
            work -= each
            if work < 0:
                return
            offsets, arena_size = _first_fit(sizes, together, order)
            yield name, (offsets, arena_size)
            # place those that did not fit first in the next iteration
            improved = sorted(order, key=lambda i: offsets[i] + sizes[i] <= bound)
            if improved == order:
                break
            order = improved


def lower_bound(storages: Sequence[Storage]) -> int:
    """Returns the most bytes alive at one time, each storage rounded up to the alignment."""
    changes: dict[int, int] = {}
    for storage in storages:
        changes[storage.first] = changes.get(storage.first, 0) + _size(storage)
        changes[storage.last + 1] = changes.get(storage.last + 1, 0) - _size(storage)
    alive = bound = 0
    for time in sorted(changes):
        alive += changes[time]
        bound = max(bound, alive)
    return bound


def _sweep(sizes: Sequence[int], times: Sequence[tuple[int, int]]) -> _Placed:
    """Places storages at the start of their lifetimes, each into the smallest hole that fits."""
    offsets = [0] * len(sizes)
    births = sorted(range(len(sizes)), key=lambda i: (times[i][0], -times[i][1], -sizes[i]))
    deaths = sorted(range(len(sizes)), key=lambda i: times[i][1])
    memory = FreeList()
    dead = 0
    for index in births:
        while times[deaths[dead]][1] < times[index][0]:
            memory.free(offsets[deaths[dead]], sizes[deaths[dead]])
            dead += 1
        offsets[index] = memory.allocate(sizes[index])
    return offsets, memory.size


def overlapping(times: Sequence[tuple[int, int]], most: int) -> list[list[int]] | None:
    """Returns for each storage those with overlapping lifetimes; None if more than `most` in total."""
    found: list[list[int]] = [[] for _ in times]
    alive: list[int] = []
    for index in sorted(range(len(times)), key=lambda i: times[i]):
        first = times[index][0]
        alive = [other for other in alive if times[other][1] >= first]
        most -= 2 * len(alive)
        if most < 0:
            return None
        found[index] = list(alive)
        for other in alive:
            found[other].append(index)
        alive.append(index)
    return found


def _first_fit(sizes: Sequence[int], together: Sequence[Sequence[int]], order: Sequence[int]) -> _Placed:
    """Places storages one by one, each at the lowest offset that is free during its lifetime."""
    offsets = [-1] * len(sizes)
    arena_size = 0
    for index in order:
        size = sizes[index]
        offset = 0
        placed = [n for n in together[index] if offsets[n] >= 0 and sizes[n]]
        placed.sort(key=offsets.__getitem__)
        for other in placed:
            start = offsets[other]
            if start - offset >= size:
                break
            offset = max(offset, start + sizes[other])
        offsets[index] = offset
        arena_size = max(arena_size, offset + size)
    return offsets, arena_size
