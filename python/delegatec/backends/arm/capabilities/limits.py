# SPDX-License-Identifier: Apache-2.0
"""Limits of single operators: functions that return a description of a violation, or None."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.dtypes import NAMES

Limit: TypeAlias = Callable[[Operation], str | None]


def first_problem(limits: Iterable[Limit], operation: Operation) -> str | None:
    """Returns the message of the first violated limit; None if the operator is within all limits."""
    return next((found for limit in limits if (found := limit(operation)) is not None), None)


def unless(condition: bool, limit: Limit) -> Sequence[Limit]:
    """Returns the limit, or none if a condition holds."""
    return () if condition else (limit,)


def dtypes(*supported: int) -> Limit:
    """Limits the type of the first operand."""

    def check(operation: Operation) -> str | None:
        found = operation.inputs[0].dtype
        names = " or ".join(NAMES[each] for each in supported)
        return None if found in supported else f"{NAMES[found]} is not supported, only {names}"

    return check


def constant(index: int, what: str) -> Limit:
    """Requires that an operand is a constant."""

    def check(operation: Operation) -> str | None:
        return None if operation.inputs[index].is_constant else f"{what} must be a constant"

    return check


def at_most(what: str, found: int, limit: int) -> str | None:
    """Returns the message for a value that exceeds a limit."""
    return f"{what} {found}, more than {limit}" if found > limit else None


def between(what: str, found: Sequence[int], limit: int) -> str | None:
    """Returns the message for values that are not all from 1 to a limit."""
    if all(1 <= each <= limit for each in found):
        return None
    return f"{what} {' x '.join(map(str, found))}, not in 1 to {limit}"
