# SPDX-License-Identifier: Apache-2.0
"""Decompositions: rules for frequent operators, which need no trace, and functions for the rest.

A module has all decompositions of a family of operators: those to normal form, for all programs (`RULES`,
`FUNCTIONS`), those for all targets that lack an operator (`REWRITES`), and others, by name, for some targets.
"""

from typing import Any, Final

from delegatec.edge.legalize.rule import Function as Function
from delegatec.edge.legalize.rule import FunctionTable, Rewrites, RuleTable, merge, rewrites
from delegatec.edge.legalize.rule import Rule as Rule
from delegatec.edge.legalize.rules import (
    activations,
    adaptive_pooling,
    arithmetic,
    attention,
    batch_norm,
    bits,
    comparison,
    convolution,
    convolution_in_parts,
    creation,
    cumulative,
    distances,
    division,
    exponentials,
    extrema,
    gather,
    grid_sampler_3d,
    grouped,
    index_put,
    integer_moves,
    interpolation,
    layer_norm,
    linear,
    losses,
    matrices,
    overlap,
    padding,
    pooling,
    powers,
    quantized,
    random,
    recurrent,
    reductions,
    resize,
    rounding,
    sampling,
    scatter,
    shape,
    slicing,
    softmax,
    sort,
    special,
    topk,
    transposed_convolution,
    trigonometry,
    variance,
)

# in order of preference, where several have rewrites of an operator
_FAMILIES: Final = (
    activations,
    adaptive_pooling,
    arithmetic,
    attention,
    batch_norm,
    bits,
    comparison,
    transposed_convolution,
    convolution_in_parts,
    convolution,
    creation,
    cumulative,
    distances,
    division,
    exponentials,
    extrema,
    gather,
    integer_moves,
    index_put,
    grouped,
    layer_norm,
    linear,
    grid_sampler_3d,
    losses,
    matrices,
    overlap,
    padding,
    pooling,
    powers,
    quantized,
    random,
    recurrent,
    reductions,
    resize,
    interpolation,
    rounding,
    sampling,
    scatter,
    shape,
    slicing,
    softmax,
    sort,
    special,
    topk,
    trigonometry,
    variance,
)


def _tables(name: str) -> list[Any]:
    return [getattr(family, name) for family in _FAMILIES if hasattr(family, name)]


RULES: Final[RuleTable] = merge(*_tables("RULES"))
FUNCTIONS: Final[FunctionTable] = merge(*_tables("FUNCTIONS"))
REWRITES: Final[Rewrites] = rewrites(*_tables("REWRITES"))
