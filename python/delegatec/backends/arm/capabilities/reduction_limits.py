# SPDX-License-Identifier: Apache-2.0
"""Limits of operators along one axis."""

from __future__ import annotations

import math
from typing import Final

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.capabilities.limits import Limit, at_most, dtypes

_MAX_SIZE: Final = 65536
_MAX_CLASSES: Final = 127


def _last_axis(operation: Operation) -> str | None:
    shape, axis = operation.inputs[0].shape, operation.attributes["axis"]
    if axis != len(shape) - 1:
        return f"axis {axis} of {len(shape)}, not the last"
    return None


def _classes(operation: Operation) -> str | None:
    *outer, classes = operation.inputs[0].shape
    if len(outer) > 3:
        return f"rank {len(outer) + 1}, more than 4"
    return (
        at_most("elements", classes, _MAX_CLASSES)
        or at_most("batch size", outer[0] if len(outer) == 3 else 1, 1)
        or at_most("positions", math.prod(outer), _MAX_SIZE)
    )


def _sum(operation: Operation) -> str | None:
    shape, axis = operation.inputs[0].shape, operation.attributes["axis"]
    found = at_most("elements", shape[axis], _MAX_SIZE)
    if found or axis == len(shape) - 1:
        return found
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    return at_most("elements before the axis", before, _MAX_SIZE) or at_most(
        "elements after it", after, _MAX_SIZE
    )


def width_or_height(operation: Operation) -> str | None:
    """Limits the axis to the second and the third last."""
    axis = operation.attributes["axis"] - len(operation.inputs[0].shape)
    return None if axis in (-2, -3) else "the axis is neither width nor height"


ARGMAX: Final[tuple[Limit, ...]] = (dtypes(DType.INT8), _last_axis, _classes)
REDUCE_SUM: Final[tuple[Limit, ...]] = (dtypes(DType.INT32), _sum)
