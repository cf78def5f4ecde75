# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that XNNPACK lacks to calls that it has.

Rules that any target can use are in `edge/legalize/rules`; the rewrites here are specific to XNNPACK and are
tried first.
"""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.backends.xnnpack.operators.rewrites import (
    byte_inputs,
    convolutions,
    integers,
    interpolation,
    norms,
    pools,
    resizing,
    slopes,
)
from delegatec.edge.channels_last.rewrites import shuffling
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import attention, gather, slicing, softmax

REWRITES: Final[Rewrites] = rewrites(
    (attention.BY_PRODUCTS,),
    byte_inputs.REWRITES,
    convolutions.REWRITES,
    integers.REWRITES,
    norms.REWRITES,
    (gather.CONSTANT_INDEX,),
    pools.REWRITES,
    resizing.REWRITES,
    interpolation.REWRITES,
    slopes.REWRITES,
    (softmax.LAST_DIMENSION,),
    (slicing.UNFOLD_BY_SLICES, slicing.STEPS_BY_GROUPS),
    shuffling.REWRITES,
    itertools.chain.from_iterable(SHARED.values()),
)
