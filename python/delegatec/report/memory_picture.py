# SPDX-License-Identifier: Apache-2.0
"""Where to draw what in the picture of a memory plan: time to the right, offset upwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from delegatec.report.manifest import MethodInfo, PlannedStorage

_WIDTH: Final = 960.0
_HEIGHT: Final = 320.0
_COLOURS: Final = 8


@dataclass(frozen=True)
class Rectangle:
    """A storage: its lifetime across, its bytes upwards. Positions in pixels, `colour` from 0 to 7."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    storage: PlannedStorage


@dataclass(frozen=True)
class MemoryPicture:
    """A laid out picture.

    Attributes:
        width: in pixels.
        height: in pixels.
        rectangles: the storages.
        bound_y: where the lower bound lies.
        live: how many bytes are alive over time, as a path in the syntax of SVG.
        steps: number of instructions.
    """

    width: float
    height: float
    rectangles: list[Rectangle]
    bound_y: float
    live: str
    steps: int


def draw_memory(method: MethodInfo) -> MemoryPicture | None:
    """Lays out the memory plan of a method; None if nothing is planned."""
    memory = method.memory
    storages = [storage for storage in memory.storages if storage.bytes]
    if not storages or not memory.arena_bytes:
        return None
    begin = min(storage.first for storage in storages)
    # what is returned or kept as state outlives the last instruction: one step shows that
    end = min(max(storage.last for storage in storages), method.instructions) + 1
    across = _WIDTH / (end - begin)
    upward = _HEIGHT / max(memory.arena_bytes, memory.lower_bound_bytes)
    rectangles = [
        Rectangle(
            x=(storage.first - begin) * across,
            y=_HEIGHT - (storage.offset + storage.bytes) * upward,
            width=(min(storage.last + 1, end) - storage.first) * across,
            height=storage.bytes * upward,
            colour=index % _COLOURS,
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
        steps=end - begin,
    )


def _live(storages: list[PlannedStorage], begin: int, end: int, across: float, upward: float) -> str:
    changes = [0] * (end - begin + 1)
    for storage in storages:
        changes[storage.first - begin] += storage.bytes
        changes[min(storage.last + 1, end) - begin] -= storage.bytes
    path, alive = f"M0 {_HEIGHT:.1f}", 0
    for step, change in enumerate(changes):
        alive += change
        if change:
            path += f"H{step * across:.1f}V{_HEIGHT - alive * upward:.1f}"
    return path
