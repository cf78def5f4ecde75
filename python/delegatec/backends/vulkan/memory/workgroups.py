# SPDX-License-Identifier: Apache-2.0
"""Workgroups of the runtime's shaders.

Reductions in textures: four invocations share a reduced row, and four rows a workgroup. Their shaders return
where a row is out of bounds before the others wait at a barrier, which is undefined. So the number of rows
must be a multiple of four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from delegatec.backends.vulkan.memory.representation import Representation, extents

MOST_WORKGROUPS: Final = 65535
"""In each direction, on any device."""

_ROWS: Final = 4
_AXES: Final = 3
INVOCATIONS: Final = 4
"""The number of invocations that share a reduced row."""


def reduces_safely(shape: Sequence[int], dims: Sequence[int], representation: Representation) -> bool:
    """Whether a texture can be reduced without undefined behavior.

    Args:
        shape: of the operand, at most four sizes.
        dims: one or two reduced dimensions, not negative.
        representation: a texture.
    """
    axes = [len(shape) - 1 - dim for dim in dims]
    if max(axes) >= _AXES:
        return False  # batches are stacked along the depth
    if _AXES - 1 in axes and len(shape) > _AXES and shape[0] > 1:
        return False
    if len(axes) > 1:
        return True  # the invocations for these rows compute the same row
    rows = extents(shape, representation)
    second, third = (axes[0] + 1) % _AXES, (axes[0] + 2) % _AXES
    return max(rows[second], rows[third]) % _ROWS == 0
