# SPDX-License-Identifier: Apache-2.0
"""Liveness, on operations that are their operands and results."""

from __future__ import annotations

from delegatec.backends.common.liveness import last_uses, live

Operation = tuple[tuple[int, ...], tuple[int, ...]]


def check(operations: list[Operation], outputs: list[int], kept: list[int], values: set[int]) -> None:
    found = live(operations, outputs, lambda operation: operation[0], lambda operation: operation[1])
    assert found == ([operations[index] for index in kept], values)


def test_operations_without_effect_on_outputs_are_dead() -> None:
    chain: list[Operation] = [((0,), (2,)), ((1,), (3,)), ((2,), (4,)), ((3,), (5,))]
    check(chain, [4], [0, 2], {0, 2, 4})
    check(chain, [4, 5], [0, 1, 2, 3], {0, 1, 2, 3, 4, 5})
    check(chain, [1], [], {1})


def test_one_live_result_of_several_is_enough() -> None:
    check([((0,), (1, 2)), ((2, 2), (3,))], [1], [0], {0, 1})


def test_a_reader_that_is_dead_itself_keeps_nothing_alive() -> None:
    check([((0,), (1,)), ((1,), (2,)), ((0,), (3,))], [3], [2], {0, 3})


def test_values_are_freed_after_their_last_use() -> None:
    assert last_uses([(0, -1, 2), (2, 1, 3), (0, 4)], [3]) == [[], [1, 2], [0, 4]]
    assert last_uses([], [0]) == []
