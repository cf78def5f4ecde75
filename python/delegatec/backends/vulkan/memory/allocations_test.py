# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

from delegatec.backends.vulkan.memory.allocations import Allocation, Life, allocate


def _bound(lives: Sequence[Life]) -> int:
    """Returns the least memory of any allocation: n tensors of a size that live together need n of it."""
    needed: dict[int, int] = {}
    for size in {life.size for life in lives}:
        large = [life for life in lives if life.size >= size]
        together = max(sum(one.overlaps(other) for other in large) for one in _starts(large))
        for number in range(together):
            needed[number] = max(needed.get(number, 0), size)
    return sum(needed.values())


def _starts(lives: Sequence[Life]) -> list[Life]:
    return [Life(0, 0, life.first, life.first) for life in lives]


def _chain(*sizes: int) -> list[Life]:
    """Returns lives of the results of a chain of calls: each ends when the next but one begins."""
    return [Life(index, size, index, index + 1) for index, size in enumerate(sizes)]


def _check(allocations: Sequence[Allocation], lives: Sequence[Life]) -> int:
    """Returns the bytes of allocations, in which no tensors overlap."""
    for allocation in allocations:
        assert allocation.size >= max(life.size for life in allocation.lives)
        assert not any(one.overlaps(other) for one, other in combinations(allocation.lives, 2))
    assert sorted(life.id for each in allocations for life in each.lives) == [life.id for life in lives]
    return sum(allocation.size for allocation in allocations)


def test_a_chain_needs_two_allocations() -> None:
    """By size alone, the smallest tensors find neither of the two free."""
    lives = _chain(9, 5, 1, 6, 7)
    assert _check(allocate(lives), lives) == 9 + 6


def test_an_allocation_grows_for_an_exchange() -> None:
    """8 and 9 share one first, but then 3 needs another one; 8 with 7 instead takes one byte more."""
    lives = _chain(8, 7, 3, 9, 5)
    assert _check(allocate(lives), lives) == 9 + 8


def test_a_small_allocation_is_better_than_growth() -> None:
    lives = _chain(9, 1, 2, 8)
    assert _check(allocate(lives), lives) == 9 + 2 + 1


def test_random_lives() -> None:
    generator = random.Random(0)
    total = bound = 0
    for _ in range(100):
        lives = []
        for id in range(generator.randrange(1, 60)):
            first = generator.randrange(50)
            lives.append(
                Life(id, generator.randrange(1, 9), first, first + generator.choice((0, 1, 1, 2, 9)))
            )
        total += _check(allocate(lives), lives)
        bound += _bound(lives)
    assert bound <= total <= 1.1 * bound
