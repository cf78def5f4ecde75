# SPDX-License-Identifier: Apache-2.0
"""Calls that TOSA lacks, by calls that it has.

Rules that any target can use are in `edge/legalize/rules` and `edge/channels_last`; those here know TOSA, and
come first.
"""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.backends.arm.operators.rewrites import (
    activations,
    by_floats,
    elements,
    extrema,
    moves,
    permutations,
    powers,
    products,
    quantized,
    scattering,
    shifts,
)
from delegatec.edge.channels_last import rewrites as channels_last
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import batch_norm, layer_norm, padding, softmax, steps

REWRITES: Final[Rewrites] = rewrites(
    activations.REWRITES,
    (
        *softmax.BY_ARITHMETIC,
        layer_norm.BY_ARITHMETIC,
        batch_norm.by_constants(wide=True),
        batch_norm.BY_ARITHMETIC,
    ),
    products.REWRITES,
    elements.REWRITES,
    shifts.REWRITES,
    extrema.REWRITES,
    powers.REWRITES,
    steps.REWRITES,
    moves.REWRITES,
    quantized.REWRITES,
    padding.BY_SLICES,
    permutations.REWRITES,
    scattering.REWRITES,
    channels_last.REWRITES,
    itertools.chain.from_iterable(SHARED.values()),
)

WITHOUT_INTEGERS: Final[Rewrites] = rewrites(
    by_floats.REWRITES, itertools.chain.from_iterable(REWRITES.values())
)
"""For specifications without the profile INT."""
