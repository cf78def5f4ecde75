# SPDX-License-Identifier: Apache-2.0
"""Liveness of operations and values in a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

_OperationT = TypeVar("_OperationT")
_ValueT = TypeVar("_ValueT", bound=Hashable)
Values = Callable[[_OperationT], Iterable[_ValueT]]


def live(
    operations: Sequence[_OperationT],
    outputs: Iterable[_ValueT],
    operands: Values[_OperationT, _ValueT],
    results: Values[_OperationT, _ValueT],
) -> tuple[list[_OperationT], set[_ValueT]]:
    """Returns the live operations, in order, and all live values.

    Args:
        operations: in execution order.
        outputs: the outputs, such as their ids.
        operands: returns an operation's operands.
        results: returns its results.
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
