# SPDX-License-Identifier: Apache-2.0
"""Memory plans: storages that are alive at one time do not overlap."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegatec.delegation.testing import lines_run
from delegatec.program.planning.memory_plan import ALIGNMENT, MemoryPlan, Storage, plan_memory


def _storage(size: int, first: int, length: int) -> Storage:
    return Storage("x", size, first, first + length)


STORAGES = st.lists(
    st.builds(
        _storage,
        size=st.one_of(st.integers(0, 200), st.sampled_from([0, 1, 16, 64, 4096])),
        first=st.integers(-1, 30),
        length=st.integers(0, 12),
    ),
    max_size=40,
)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _check(plan: MemoryPlan) -> None:
    for storage in plan.storages:
        assert storage.offset % ALIGNMENT == 0
        assert storage.offset >= 0 and storage.offset + storage.size <= plan.arena_size
    for index, a in enumerate(plan.storages):
        for b in plan.storages[:index]:
            together = a.first <= b.last and b.first <= a.last
            overlap = a.offset < b.offset + b.size and b.offset < a.offset + a.size
            assert not (together and overlap and a.size and b.size), f"{a} and {b}"


def _most_alive(storages: list[Storage]) -> int:
    times = {storage.first for storage in storages}
    return max((sum(_rounded(s.size) for s in storages if s.first <= t <= s.last) for t in times), default=0)


@given(STORAGES)
@settings(max_examples=300, deadline=None)
def test_plans_are_valid_and_not_below_the_bound(storages: list[Storage]) -> None:
    plan = plan_memory(storages)
    _check(plan)
    assert plan.lower_bound == _most_alive(storages) <= plan.arena_size
    assert plan.arena_size <= sum(_rounded(storage.size) for storage in storages)


@given(STORAGES)
@settings(max_examples=50, deadline=None)
def test_plans_are_a_function_of_the_storages(storages: list[Storage]) -> None:
    again = deepcopy(storages)
    plan, second = plan_memory(storages), plan_memory(again)
    assert [s.offset for s in plan.storages] == [s.offset for s in second.storages]
    assert (plan.arena_size, plan.order) == (second.arena_size, second.order)


def test_nothing() -> None:
    plan = plan_memory([])
    assert (plan.arena_size, plan.lower_bound, plan.storages) == (0, 0, [])


def test_dead_memory_is_reused() -> None:
    storages = [_storage(100, 0, 0), _storage(100, 1, 0), _storage(50, 1, 1)]
    plan = plan_memory(storages)
    assert plan.arena_size == plan.lower_bound == 112 + 64


def test_a_value_that_is_read_where_another_is_written_keeps_its_memory() -> None:
    read, written = _storage(16, 0, 1), _storage(16, 1, 0)
    plan = plan_memory([read, written])
    assert read.offset != written.offset and plan.arena_size == 32


def _chain(*sizes: int) -> list[Storage]:
    """Each value is read by the next instruction only."""
    return [Storage(str(i), size, i, i + 1) for i, size in enumerate(sizes)]


def _residual(blocks: int) -> list[Storage]:
    """A transformer's lifetimes: in each block a wide middle, and a stream that is read at the end."""
    storages = [Storage("in", 4096, -1, 3)]
    for block in range(blocks):
        start = 4 * block
        sizes = (4096, 16384, 4096)
        storages += [Storage(f"{block}.{i}", size, start + i, start + i + 1) for i, size in enumerate(sizes)]
        storages.append(Storage(f"{block}.out", 4096, start + 3, start + 7))
    return storages


def _inverted_bottlenecks() -> list[Storage]:
    """MobileNet's lifetimes: alternately wide and narrow, with decreasing sizes."""
    storages = []
    for block in range(12):
        scale = 3 - block // 4
        start = 3 * block
        narrow, wide = 9_000 * scale, 54_000 * scale
        storages += [
            Storage(f"{block}.expand", wide, start, start + 1),
            Storage(f"{block}.depthwise", wide // 2 if block % 4 == 3 else wide, start + 1, start + 2),
            Storage(f"{block}.project", narrow, start + 2, start + (6 if block % 4 else 3)),
        ]
    return storages


@pytest.mark.parametrize(
    "storages",
    [
        pytest.param(_chain(1000, 50, 800, 1000, 20, 500, 700), id="chain"),
        pytest.param(_residual(6), id="transformer"),
        pytest.param(_inverted_bottlenecks(), id="inverted bottlenecks"),
    ],
)
def test_known_models_reach_the_bound(storages: list[Storage]) -> None:
    plan = plan_memory(storages)
    _check(plan)
    assert plan.arena_size == plan.lower_bound


def _state(count: int) -> list[Storage]:
    """A decoder's lifetimes: buffers that are always alive, and short-lived values."""
    return [Storage("state", 4096, -1, count) for _ in range(count // 20)] + _chain(
        *[64, 4096, 512] * (count // 3)
    )


def _nested(count: int) -> list[Storage]:
    """All alive at one time: an encoder whose every value is read again on the way back."""
    return [Storage(str(i), 16 + 16 * (i % 5), i, 2 * count - i) for i in range(count)]


def _crossing(count: int) -> list[Storage]:
    """No order of these reaches the bound, so that all are tried."""
    return [Storage(str(i), 16 + 48 * (i * 7 % 11), i, i + 1 + i * 5 % 13) for i in range(count)]


@pytest.mark.parametrize("make", [_residual, _state, _nested, _crossing])
def test_the_work_grows_as_the_storages(make: Callable[[int], list[Storage]]) -> None:
    counts = [_size_and_work(make(count)) for count in (3_000, 12_000)]
    (few, little), (many, much) = counts
    assert much / little < 1.4 * many / few


def _size_and_work(storages: list[Storage]) -> tuple[int, int]:
    work = lines_run(lambda: plan_memory(storages))
    _check_by_sweep(storages)
    return len(storages), work


def _check_by_sweep(storages: list[Storage]) -> None:
    """As `_check`, for many: no two that are alive at one time overlap."""
    alive: list[Storage] = []
    for storage in sorted(storages, key=lambda s: s.first)[:2000]:
        alive = [other for other in alive if other.last >= storage.first]
        for other in alive:
            assert (
                storage.offset >= other.offset + other.size or other.offset >= storage.offset + storage.size
            )
        alive.append(storage)
