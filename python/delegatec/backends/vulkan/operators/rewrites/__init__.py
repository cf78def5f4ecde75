# SPDX-License-Identifier: Apache-2.0
"""Calls that the runtime lacks, or computes wrongly, by calls that it has.

Rules that any target can use are in `edge/legalize/rules`; those here know the runtime, and come first.
"""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.backends.vulkan.operators.rewrites import (
    affine,
    elements,
    layers,
    logarithms,
    lookups,
    moves,
    normalization,
    numbers,
    promotion,
    quantized,
    reductions,
    scattering,
)
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import attention

REWRITES: Final[Rewrites] = rewrites(
    (attention.OF_EQUAL_HEADS, attention.BY_PRODUCTS),
    numbers.REWRITES,
    promotion.REWRITES,
    elements.REWRITES,
    logarithms.REWRITES,
    reductions.REWRITES,
    normalization.REWRITES,
    layers.REWRITES,
    lookups.REWRITES,
    scattering.REWRITES,
    quantized.REWRITES,
    affine.REWRITES,
    moves.REWRITES,
    itertools.chain.from_iterable(SHARED.values()),
)
