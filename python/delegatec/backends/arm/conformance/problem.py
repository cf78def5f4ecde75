# SPDX-License-Identifier: Apache-2.0
"""Why a consumer of TOSA graphs would reject an operator."""

from __future__ import annotations

from collections.abc import Iterator

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.conformance.limits import limit_problems
from delegatec.backends.arm.conformance.rules import rule_problems
from delegatec.backends.arm.conformance.types import type_problem
from delegatec.backends.arm.specification import TosaSpecification


def problem(operation: Operation, specification: TosaSpecification) -> str | None:
    """Returns the first reason why an operator does not conform to a specification; None if it does."""
    return next(problems(operation, specification), None)


def problems(operation: Operation, specification: TosaSpecification) -> Iterator[str]:
    """Yields all reasons."""
    found = type_problem(operation, specification)
    if found is not None:
        yield found
        return
    for each in (*limit_problems(operation), *rule_problems(operation, specification)):
        yield f"{operation.name}: {each}"
