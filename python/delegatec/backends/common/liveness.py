# SPDX-License-Identifier: Apache-2.0
"""Liveness of operations and values in a graph."""

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
    """Returns the live operations, in order, and the ids of all live values.

    Args:
        operations: in execution order.
        outputs: ids of the outputs.
        operands: returns the ids of an operation's operands.
        results: returns the ids of its results.
    """
    values, kept = set(outputs), []
    for operation in reversed(operations):
        if not values.isdisjoint(results(operation)):
            kept.append(operation)
            values.update(operands(operation))
    return kept[::-1], values


def last_uses(operations: Sequence[Iterable[int]], outputs: Collection[int]) -> list[list[int]]:
    """Returns the ids to free after each operation: no later operation and no output uses them.

    Args:
        operations: ids of the operands and results of each, in execution order; negative ones are ignored.
        outputs: ids of the outputs.
    """
    needed = set(outputs)
    found: list[list[int]] = []
    for operation in reversed(operations):
        ids = {id for id in operation if id >= 0} - needed
        needed |= ids
        found.append(sorted(ids))
    return found[::-1]
