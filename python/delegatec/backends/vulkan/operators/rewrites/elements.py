# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions that the runtime lacks, or computes wrongly."""

from __future__ import annotations

from typing import Final

from delegatec.backends.common.row import overload
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules import (
    activations,
    comparison,
    exponentials,
    extrema,
    powers,
    promotion,
    ranks,
    rounding,
    special,
)

_FEW_DIMENSIONS: Final = (
    *("abs", "cos", "exp", "neg", "sigmoid", "sin", "sqrt", "rsqrt", "tanh", "tan", "round", "relu"),
    *(
        "bitwise_not",
        "logical_not",
        "hardshrink",
        "hardswish",
        "hardsigmoid",
        "leaky_relu",
        "gelu",
        "clamp",
        "hardtanh",
        "where.self",
    ),
)
_BINARY: Final = tuple(
    overload(f"{name}.{kind}")
    for name in ("add", "sub", "mul", "div", "lt", "le", "gt", "ge")
    for kind in ("Tensor", "Scalar")
) + tuple(
    overload(name)
    for name in (
        *("pow.Tensor_Scalar", "rsub.Scalar", "minimum", "floor", "logical_and", "logical_or"),
        *("bitwise_and.Tensor", "bitwise_or.Tensor"),
    )
)

REWRITES: Final = (
    *(Rewrite(overload(name), ranks.of_few_dimensions) for name in _FEW_DIMENSIONS),
    *ranks.ELEMENTWISE,
    *(Rewrite(target, ranks.of_rank_one) for target in _BINARY),
    # equality of floats has a tolerance of 1e-5
    *comparison.EQUAL_BY_ORDER,
    extrema.MAXIMUM_BY_MINIMUM,
    powers.RECIPROCAL_BY_DIVISION,
    special.ERF_BY_EXP,
    activations.GELU_BY_EXP,
    powers.NEGATIVE_BY_RECIPROCAL,
    promotion.PROMOTED_CLAMP,
    exponentials.EXP2_BY_EXP,
    *rounding.BY_FLOOR,
    rounding.SIGN_BY_DIFFERENCE,
    *comparison.NOT_FINITE_BY_ORDER,
    # to resize a result, also one of static sizes if others in the graph vary, needs conditions of full rank
    *comparison.WHERE_BY_ARITHMETIC,
)
