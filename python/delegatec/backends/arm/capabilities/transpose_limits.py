# SPDX-License-Identifier: Apache-2.0
"""Limits of TRANSPOSE, which Vela composes from transpositions of two axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.capabilities.limits import at_most

_MAX_SIZE: Final = 65536
_WIDE: Final = {(0, 2, 1, 3): 1 << 14, (0, 1, 3, 2): 1 << 16, (0, 3, 2, 1): 1 << 14}
"""Permutation of INT32 -> the largest number of channels."""


def sizes(operation: Operation) -> str | None:
    """Limits the sizes by the permutation, the rank and the type."""
    value = operation.inputs[0]
    permutation = tuple(operation.attributes["perms"])
    if value.dtype == DType.INT32:
        return _wide(value.shape, permutation)
    if permutation == tuple(range(len(permutation))):
        return None
    shape = value.shape
    if math.prod(shape[:-3]) == 1 and permutation[:-3] == tuple(range(len(shape) - 3)):
        return at_most("axis of", max(shape, default=1), _MAX_SIZE)
    return at_most("product of all axes but two", math.prod(sorted(shape)[2:]), _MAX_SIZE)


def _wide(shape: Sequence[int], permutation: Sequence[int]) -> str | None:
    if len(shape) > 4:
        return f"INT32 of rank {len(shape)}, more than 4"
    added = 4 - len(shape)
    batch, height, width, channels = (1,) * added + tuple(shape)
    ordered = (*range(added), *(axis + added for axis in permutation))
    if math.prod(shape) <= _MAX_SIZE // 2:
        return None
    if ordered == (0, 1, 2, 3):
        return at_most("channels of INT32", channels, 1 << 15)
    if ordered not in _WIDE:
        return f"INT32{list(shape)} in the order {list(permutation)}"
    if ordered == (0, 1, 3, 2):
        height, batch = batch * height, 1
    return (
        at_most("batch size of INT32", batch, 1)
        or at_most("axis of INT32", max(height, width), _MAX_SIZE)
        or at_most("channels of INT32", channels, _WIDE[ordered])
    )
