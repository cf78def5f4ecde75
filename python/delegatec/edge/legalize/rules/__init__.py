# SPDX-License-Identifier: Apache-2.0
"""Decompositions: rules for frequent operators, which need no trace, and functions for the rest.

Decompositions to normal form are for all programs, rewrites for targets that lack an operator.
"""

from typing import Final

from delegatec.edge.legalize.rule import Function as Function
from delegatec.edge.legalize.rule import FunctionTable, Rewrites, RuleTable, merge, rewrites
from delegatec.edge.legalize.rule import Rule as Rule
from delegatec.edge.legalize.rules import (
    accumulation,
    activations,
    arithmetic,
    arrangement,
    attention,
    bits,
    convolution,
    convolution_3d,
    convolutions,
    copies,
    creation,
    cumulative,
    distances,
    division,
    elementary,
    elementwise,
    extrema,
    interpolation,
    linear,
    lookup,
    lookups,
    matrices,
    moves,
    normalization,
    ordering,
    overlap,
    padding,
    pooling,
    pooling_nd,
    pools,
    powers,
    quantized,
    random,
    ranks,
    recurrent,
    reductions,
    replacement,
    resizing,
    sampling,
    scaled,
    scattering,
    selection,
    shape,
    sorting,
    special,
    trigonometry,
)

RULES: Final[RuleTable] = merge(
    attention.RULES,
    convolution.RULES,
    convolution_3d.RULES,
    copies.RULES,
    elementwise.RULES,
    interpolation.RULES,
    linear.RULES,
    normalization.RULES,
    pooling.RULES,
    recurrent.RULES,
    resizing.RULES,
    shape.RULES,
)

FUNCTIONS: Final[FunctionTable] = merge(
    arithmetic.FUNCTIONS,
    cumulative.FUNCTIONS,
    interpolation.FUNCTIONS,
    lookup.FUNCTIONS,
    matrices.FUNCTIONS,
    pooling_nd.FUNCTIONS,
    quantized.FUNCTIONS,
    random.FUNCTIONS,
    scattering.FUNCTIONS,
    sorting.FUNCTIONS,
    special.FUNCTIONS,
)

REWRITES: Final[Rewrites] = rewrites(
    # first: other rules are for few dimensions
    ranks.REWRITES,
    accumulation.REWRITES,
    activations.REWRITES,
    arrangement.REWRITES,
    bits.REWRITES,
    convolutions.REWRITES,
    creation.REWRITES,
    distances.REWRITES,
    division.REWRITES,
    elementary.REWRITES,
    extrema.REWRITES,
    linear.REWRITES,
    lookups.REWRITES,
    moves.REWRITES,
    ordering.REWRITES,
    overlap.REWRITES,
    padding.REWRITES,
    pools.REWRITES,
    powers.REWRITES,
    reductions.REWRITES,
    replacement.REWRITES,
    resizing.REWRITES,
    sampling.REWRITES,
    scaled.REWRITES,
    selection.REWRITES,
    trigonometry.REWRITES,
)
