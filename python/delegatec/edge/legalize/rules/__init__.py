# SPDX-License-Identifier: Apache-2.0
"""Our own decompositions: rules for the frequent operators, without a trace, and functions for the rest."""

from typing import Final

from delegatec.edge.legalize.rule import Function as Function
from delegatec.edge.legalize.rule import FunctionTable, RuleTable, merge
from delegatec.edge.legalize.rule import Rule as Rule
from delegatec.edge.legalize.rules import (
    arithmetic,
    attention,
    convolution,
    convolution_3d,
    cumulative,
    elementwise,
    interpolation,
    linear,
    lookup,
    matrices,
    normalization,
    pooling,
    pooling_nd,
    quantized,
    random,
    recurrent,
    scattering,
    shape,
    sorting,
    special,
)

RULES: Final[RuleTable] = merge(
    attention.RULES,
    convolution.RULES,
    convolution_3d.RULES,
    elementwise.RULES,
    interpolation.RULES,
    linear.RULES,
    normalization.RULES,
    pooling.RULES,
    recurrent.RULES,
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
