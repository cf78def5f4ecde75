# SPDX-License-Identifier: Apache-2.0
"""Our own decompositions: the frequent operators, without a trace, and those where torch's would be worse."""

from typing import Final

from delegatec.edge.decompositions import (
    attention,
    convolution,
    elementwise,
    linear,
    normalization,
    pooling,
    recurrent,
    shape,
)
from delegatec.edge.decompositions.rule import Rule as Rule
from delegatec.edge.decompositions.rule import RuleTable, merge

RULES: Final[RuleTable] = merge(
    attention.RULES,
    convolution.RULES,
    elementwise.RULES,
    linear.RULES,
    normalization.RULES,
    pooling.RULES,
    recurrent.RULES,
    shape.RULES,
)
