# SPDX-License-Identifier: Apache-2.0
"""Allocations never overlap, and freed holes are merged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from delegatec.program.planning.free_list import FreeList

# Actions: a size to allocate, or, if negative, the allocation to free.
ACTIONS = st.lists(st.one_of(st.integers(0, 64), st.integers(-40, -1)), max_size=60)


@given(ACTIONS)
def test_allocations_do_not_overlap(actions: list[int]) -> None:
    memory = FreeList()
    taken: list[tuple[int, int]] = []
    highest = 0
    for action in actions:
        if action >= 0:
            offset = memory.allocate(action)
            assert all(offset + action <= o or o + size <= offset for o, size in taken if size and action)
            taken.append((offset, action))
            highest = max(highest, offset + action)
        elif taken:
            memory.free(*taken.pop(action % len(taken)))
        assert memory.size == highest
    for piece in taken:
        memory.free(*piece)
    # all of it is one hole
    assert memory.allocate(memory.size) == 0 and memory.size == highest


def test_the_smallest_hole_that_fits_is_used() -> None:
    memory = FreeList()
    offsets = [memory.allocate(size) for size in (40, 1, 20, 1, 30, 1)]
    assert offsets == [0, 40, 41, 61, 62, 92]
    for offset, size in ((0, 40), (41, 20), (62, 30)):
        memory.free(offset, size)
    assert memory.allocate(18) == 41
    assert memory.allocate(30) == 62
    assert memory.allocate(2) == 59  # the rest of the first
    assert memory.size == 93


def test_a_hole_at_the_end_grows() -> None:
    memory = FreeList()
    memory.free(memory.allocate(10), 10)
    assert memory.allocate(25) == 0 and memory.size == 25
