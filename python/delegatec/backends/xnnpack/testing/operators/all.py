# SPDX-License-Identifier: Apache-2.0
"""All cases."""

from __future__ import annotations

from typing import Final

from delegatec.backends.xnnpack.testing.operators import (
    clamps,
    constant_indices,
    copies,
    elements,
    images,
    layers,
    lengths,
    logic,
    moves,
    positions,
    several_sizes,
    volumes,
)
from delegatec.backends.xnnpack.testing.operators.case import Case

ALL: Final[dict[str, Case]] = {
    **elements.CASES,
    **copies.CASES,
    **logic.CASES,
    **layers.CASES,
    **lengths.CASES,
    **several_sizes.CASES,
    **moves.CASES,
    **clamps.CASES,
    **constant_indices.CASES,
    **positions.CASES,
    **images.CASES,
    **volumes.CASES,
}
