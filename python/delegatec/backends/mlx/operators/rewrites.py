# SPDX-License-Identifier: Apache-2.0
"""Rewrites of calls that the runtime lacks: the shared ones, and channels-last layers."""

from __future__ import annotations

import itertools
from typing import Final

from delegatec.edge.channels_last.rewrites import convolutions, shuffling
from delegatec.edge.legalize.rule import Rewrites, rewrites
from delegatec.edge.legalize.rules import REWRITES as SHARED
from delegatec.edge.legalize.rules import (
    attention,
    batch_norm,
    convolution,
    division,
    extrema,
    layer_norm,
    reductions,
    scatter,
    symbolic_scalars,
)
from delegatec.edge.pools import rewrites as pools

_LAYERS: Final = convolutions.Layers(has_rows=True, has_groups=True, divides_exactly=False)

REWRITES: Final[Rewrites] = rewrites(
    symbolic_scalars.REWRITES,
    (convolutions.rewrite_for(_LAYERS, "channels last; groups of volumes one by one"),),
    pools.REWRITES,
    shuffling.REWRITES,
    (batch_norm.by_constants(), batch_norm.BY_ARITHMETIC),
    division.BY_REMAINDER,
    (*extrema.SEPARATE_POSITION, *extrema.POSITION_OF_FLOATS),
    (layer_norm.OF_ROWS, layer_norm.RMS_OF_ROWS, layer_norm.BY_ARITHMETIC, attention.BY_PRODUCTS),
    reductions.PRODUCTS_IN_FLOAT32,
    reductions.SUMS_IN_FLOAT32,
    scatter.BY_SUMS,
    itertools.chain.from_iterable(SHARED.values()),
    (convolution.TRANSPOSED_GROUPS,),
)
