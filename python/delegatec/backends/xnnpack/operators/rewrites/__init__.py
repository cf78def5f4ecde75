# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that XNNPACK lacks to calls that it has.

Rules that any target can use are in `edge/legalize/rules`; the rewrites here are specific to XNNPACK and are
tried first.
"""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.backends.xnnpack.operators.rewrites import (
    attention,
    bools,
    byte_inputs,
    convolutions,
    integers,
    interpolation,
    norms,
    pools,
    positions,
    resizing,
    selection,
    slopes,
)
from delegatec.edge.channels_last.rewrites import shuffling
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import (
    comparison,
    exponentials,
    extrema,
    gather,
    linear,
    powers,
    reductions,
    rounding,
    slicing,
    softmax,
    special,
)

REWRITES: Final[Rewrites] = rewrites(
    attention.REWRITES,
    byte_inputs.REWRITES,
    convolutions.REWRITES,
    integers.REWRITES,
    bools.REWRITES,
    (comparison.WHERE_OF_BOOLS, comparison.WHERE_BY_EXTREMA),
    (special.ERF_BY_GELU, exponentials.EXP2_IN_FLOAT32),
    (*powers.BY_EXP, powers.RSQRT_BY_SQRT),
    (rounding.ROUND_BY_SUM, rounding.SIGN_BY_CLAMP),
    norms.REWRITES,
    (gather.CONSTANT_INDEX,),
    selection.REWRITES,
    positions.REWRITES,
    reductions.MINIMUM_BY_MAXIMUM,
    pools.REWRITES,
    resizing.REWRITES,
    interpolation.REWRITES,
    slopes.REWRITES,
    (softmax.LAST_DIMENSION, softmax.LOG_BY_ARITHMETIC),
    (linear.ADDMM_BY_MM,),
    (slicing.TRIANGLE_BY_CONSTANT, slicing.UNFOLD_BY_SLICES, slicing.STRIDED_SLICE_BY_GROUPS),
    shuffling.REWRITES,
    # there, the positions of extrema are integers, which XNNPACK does not compute
    (each for each in itertools.chain.from_iterable(SHARED.values()) if each not in extrema.ALONG_DIM),
)
