# SPDX-License-Identifier: Apache-2.0
"""Layout of the drawing of a memory plan: time to the right, offsets upwards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from delegatec.report.memory_info import PlannedStorage
from delegatec.report.methods import MethodInfo

_WIDTH: Final = 960.0
_HEIGHT: Final = 320.0
_COLORS: Final = 8


@dataclass(frozen=True)
class Rectangle:
    """A storage: its lifetime (x) and its bytes (y). Positions in pixels, `color` from 0 to 7."""

    x: float
    y: float
    width: float
    height: float
    color: int
    storage: PlannedStorage


@dataclass(frozen=True)
class MemoryPicture:
    """A drawing of a memory plan.

    Attributes:
        width: in pixels.
        height: in pixels.
        rectangles: the storages.
        bound_y: position of the lower bound.
        live: bytes alive over time, as an SVG path.
        instructions: number of instructions.
    """

    width: float
    height: float
    rectangles: list[Rectangle]
    bound_y: float
    live: str
    instructions: int


def draw_memory(method: MethodInfo) -> MemoryPicture | None:
    """Lays out the memory plan of a method; returns None if nothing is planned."""
    memory = method.memory
    storages = [storage for storage in memory.storages if storage.bytes]
    if not storages or not memory.arena_bytes:
        return None
    begin = min(storage.first for storage in storages)
    # results and state outlive the last instruction: draw them one instruction longer
    end = min(max(storage.last for storage in storages), method.instructions) + 1
    across = _WIDTH / (end - begin)
    upward = _HEIGHT / max(memory.arena_bytes, memory.lower_bound_bytes)
    # the first memory at the bottom
    bases = [0, *accumulate(each.bytes for each in memory.memories)]
    rectangles = [
        Rectangle(
            x=(storage.first - begin) * across,
            y=_HEIGHT - (bases[storage.memory - 1] + storage.offset + storage.bytes) * upward,
            width=(min(storage.last + 1, end) - storage.first) * across,
            height=storage.bytes * upward,
            color=index % _COLORS,
            storage=storage,
        )
        for index, storage in enumerate(storages)
    ]
    return MemoryPicture(
        width=_WIDTH,
        height=_HEIGHT,
        rectangles=rectangles,
        bound_y=_HEIGHT - memory.lower_bound_bytes * upward,
        live=_live(storages, begin, end, across, upward),
        instructions=end - begin,
    )


def _live(storages: list[PlannedStorage], begin: int, end: int, across: float, upward: float) -> str:
    changes: Counter[int] = Counter()
    for storage in storages:
        changes[storage.first - begin] += storage.bytes
        changes[min(storage.last + 1, end) - begin] -= storage.bytes
    path, alive = f"M0 {_HEIGHT:.1f}", 0
    for step, change in sorted(changes.items()):
        alive += change
        if change:
            path += f"H{step * across:.1f}V{_HEIGHT - alive * upward:.1f}"
    return path
