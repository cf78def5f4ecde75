# SPDX-License-Identifier: Apache-2.0
"""Memory planning: offsets in one arena for storages that live at different times.

The sum of what is alive at one time, at its largest, bounds every plan from below. First fit reaches or
nearly reaches it if storages are placed in a good order, and which order is good depends on the model; so
several are tried, each is improved by placing first what did not fit, and the smallest arena is kept.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# Alignment in bytes of every planned tensor; the runtime's kernels and delegates may rely on it.
ALIGNMENT: Final = 16


@dataclass
class Storage:
    """Bytes that one value, or several that are views of each other, live in.

    Attributes:
        name: the value that it was made for.
        size: in bytes.
        first: position of the instruction that writes it; -1 for an input.
        last: position of the last instruction that reads it.
        offset: into the arena; -1 before planning.
    """

    name: str
    size: int
    first: int
    last: int
    offset: int = -1


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
    return -(-storage.size // ALIGNMENT) * ALIGNMENT


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


def plan_memory(storages: Sequence[Storage]) -> MemoryPlan:
    """Gives every storage an offset.

    Args:
        storages: their `offset` is set.

    Returns:
        The smallest plan of all orders; the first of those that are equal.
    """
    plan = MemoryPlan(lower_bound=_lower_bound(storages), storages=list(storages))
    best: list[int] = []
    for name, key in _ORDERS.items():
        order = sorted(range(len(storages)), key=lambda i: key(storages[i]))
        for _ in range(_IMPROVEMENTS):
            offsets, arena_size = _first_fit(storages, order)
            if not plan.order or arena_size < plan.arena_size:
                plan.arena_size, plan.order, best = arena_size, name, offsets
            if plan.arena_size == plan.lower_bound:
                break
            # those that stick out are placed first in the next round
            order.sort(key=lambda i: offsets[i] + _size(storages[i]) <= plan.lower_bound)
    for storage, offset in zip(storages, best, strict=True):
        storage.offset = offset
    return plan


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


def _first_fit(storages: Sequence[Storage], order: Sequence[int]) -> tuple[list[int], int]:
    """Places storages one by one, each at the lowest offset that is free while it is alive."""
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last: sorted by offset
    offsets = [0] * len(storages)
    arena_size = 0
    for index in order:
        storage = storages[index]
        size = _size(storage)
        offset = 0
        for start, end, first, last in placed:
            if first <= storage.last and storage.first <= last:
                if start - offset >= size:
                    break
                offset = max(offset, end)
        offsets[index] = offset
        arena_size = max(arena_size, offset + size)
        if size:
            insort(placed, (offset, offset + size, storage.first, storage.last))
    return offsets, arena_size
