# SPDX-License-Identifier: Apache-2.0
"""Placement of storages in blocks of memory, which others use again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class _Block:
    """A range of a memory, with the offset, the size and the moments of each storage inside."""

    start: int
    size: int
    inside: list[tuple[int, int, slice]]

    def behind(self, alive: slice) -> int:
        """Returns the end of those that are alive at one of these moments; 0 without any."""
        ends = (
            offset + size
            for offset, size, other in self.inside
            if other.start < alive.stop and alive.start < other.stop
        )
        return max(ends, default=0)


def place_in_blocks(
    order: Sequence[int], sizes: Sequence[int], alive: Sequence[slice], capacities: Sequence[int]
) -> list[tuple[int, int]]:
    """Places storages one by one, each in a block of an earlier one if one has room.

    A block is as large as its first storage. Another one is placed behind those in the block that are alive
    at the same time. A storage without room in any block of a memory gets a new one at its end, or else goes
    to the next memory.

    Args:
        order: indices of the storages.
        sizes: their bytes.
        alive: the moments of their lifetimes.
        capacities: bytes of each memory, in order of preference.

    Returns:
        The memory and the offset of each storage; memory -1 for none.
    """
    placed = [(-1, 0)] * len(sizes)
    blocks: list[list[_Block]] = [[] for _ in capacities]
    ends = [0] * len(capacities)
    for index in order:
        for memory, capacity in enumerate(capacities):
            start = _room(blocks[memory], sizes[index], alive[index])
            if start is None:
                start = ends[memory]
                if start + sizes[index] > capacity:
                    continue
                ends[memory] += sizes[index]
                blocks[memory].append(_Block(start, sizes[index], [(0, sizes[index], alive[index])]))
            placed[index] = memory, start
            break
    return placed


def _room(blocks: Sequence[_Block], size: int, alive: slice) -> int | None:
    """Returns where a storage is placed in a block, in one without others at that time if possible."""
    ends = [block.behind(alive) for block in blocks]
    for block, end in sorted(zip(blocks, ends, strict=True), key=lambda each: each[1] > 0):
        if end + size <= block.size:
            block.inside.append((end, size, alive))
            return block.start + end
    return None
