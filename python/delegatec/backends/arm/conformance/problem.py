# SPDX-License-Identifier: Apache-2.0
"""Why a consumer of TOSA graphs would reject an operator."""

from __future__ import annotations

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.dtypes import FORMAT_FLOATS, NAMES
from delegatec.backends.arm.specification import TosaSpecification


def problem(operation: Operation, specification: TosaSpecification) -> str | None:
    """Returns why an operator does not conform to a specification; None if it does."""
    for value in (*operation.inputs, *operation.outputs):
        if value.dtype in FORMAT_FLOATS and not specification.floating:
            return f"{operation.name} of {NAMES[value.dtype]} needs the profile FP"
    return None
