# SPDX-License-Identifier: Apache-2.0
"""Calls that TOSA lacks, by calls that it has.

Rules that any target can use are in `edge/legalize/rules` and `edge/channels_last`; those here know TOSA, and
come first.
"""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.backends.arm.operators.rewrites import (
    by_floats,
    elements,
    moves,
    normalization,
    padding,
    permutations,
    products,
    quantized,
    scattering,
    shifts,
)
from delegatec.edge.channels_last import rewrites as channels_last
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import (
    activations,
    division,
    exponentials,
    extrema,
    powers,
    rounding,
    steps,
)

REWRITES: Final[Rewrites] = rewrites(
    (activations.ELU_IN_FLOAT32, *exponentials.IN_FLOAT32),
    (activations.GELU_BY_ERF, activations.LEAKY_RELU_BY_MAXIMUM),
    normalization.REWRITES,
    products.REWRITES,
    elements.REWRITES,
    rounding.SIGN_BY_WHERE,
    division.TRUNCATED,
    shifts.REWRITES,
    extrema.SEPARATE_POSITION,
    powers.IN_DOMAIN,
    steps.REWRITES,
    moves.REWRITES,
    quantized.REWRITES,
    padding.REWRITES,
    permutations.REWRITES,
    scattering.REWRITES,
    channels_last.REWRITES,
    itertools.chain.from_iterable(SHARED.values()),
)

WITHOUT_INTEGERS: Final[Rewrites] = rewrites(
    by_floats.REWRITES, itertools.chain.from_iterable(REWRITES.values())
)
"""For specifications without the profile INT."""
