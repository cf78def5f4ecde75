# SPDX-License-Identifier: Apache-2.0
"""Limits of TOSA that hold for all operators, as constraints."""

from __future__ import annotations

from typing import Final

from delegatec.backends.arm.conformance.limits import MOST_DIMENSIONS
from delegatec.backends.arm.dtypes import ALL
from delegatec.backends.arm.operators.row import Constraint
from delegatec.backends.arm.static_sizes import STATIC
from delegatec.edge.legalize.constraints import known_dtypes, no_empty_tensors, rank_at_most

UNIVERSAL: Final[tuple[Constraint, ...]] = (
    STATIC,
    known_dtypes(
        ALL,
        "Tensors are bool, int8, int16, int32, int64 in the range of int32, float16, bfloat16 or float32: "
        "TOSA has no other types.",
        "convert to float32 or int32",
    ),
    no_empty_tensors("TOSA has none."),
    rank_at_most(MOST_DIMENSIONS, "the limit of TOSA's level 8K."),
)
