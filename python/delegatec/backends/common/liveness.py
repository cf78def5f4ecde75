# SPDX-License-Identifier: Apache-2.0
"""Which operations of a graph in the making its outputs are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
