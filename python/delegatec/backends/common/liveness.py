# SPDX-License-Identifier: Apache-2.0
"""Which operations the outputs of a graph are computed from, and until when values are needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

_OperationT = TypeVar("_OperationT")
Ids = Callable[[_OperationT], Iterable[int]]


def live(
    operations: Sequence[_OperationT],
    outputs: Iterable[int],
    operands: Ids[_OperationT],
    results: Ids[_OperationT],
) -> tuple[list[_OperationT], set[int]]:
    """The live operations, in order, and all live values.

    Args:
        operations: in the order in which they run.
        outputs: ids of the values that are asked for.
        operands: ids of the values that an operation reads.
        results: ids of the values that it computes.
    """
    values, kept = set(outputs), []
    for operation in reversed(operations):
        if not values.isdisjoint(results(operation)):
            kept.append(operation)
            values.update(operands(operation))
    return kept[::-1], values


def last_uses(operations: Sequence[Iterable[int]], outputs: Collection[int]) -> list[list[int]]:
    """For each operation the ids that no later one has, and that are no output: to be freed after it.

    Args:
        operations: ids of the operands and results of each, in the order in which they run. Ids below zero
            stand for no value.
        outputs: ids that are needed to the end.
    """
    needed = set(outputs)
    found: list[list[int]] = []
    for operation in reversed(operations):
        ids = {id for id in operation if id >= 0} - needed
        needed |= ids
        found.append(sorted(ids))
    return found[::-1]
