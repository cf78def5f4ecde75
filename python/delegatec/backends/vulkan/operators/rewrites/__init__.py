# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that the runtime lacks, or computes wrongly, to calls that it has.

Rules that any target can use are in `edge/legalize/rules`; those here know the runtime, and come first.
"""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.backends.vulkan.operators.rewrites import (
    affine,
    elements,
    layers,
    normalization,
    quantized,
    reductions,
)
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import (
    attention,
    exponentials,
    gather,
    index_put,
    promotion,
    ranks,
    symbolic_scalars,
)

REWRITES: Final[Rewrites] = rewrites(
    (attention.OF_EQUAL_HEADS, attention.BY_PRODUCTS),
    symbolic_scalars.REWRITES,
    promotion.PROMOTED,
    elements.REWRITES,
    exponentials.BY_ROOTS,
    reductions.REWRITES,
    normalization.REWRITES,
    layers.REWRITES,
    (gather.INDEX_BY_SELECTION, index_put.PUT_BY_SELECTION),
    quantized.REWRITES,
    affine.REWRITES,
    ranks.MOVES,
    itertools.chain.from_iterable(SHARED.values()),
)
