# SPDX-License-Identifier: Apache-2.0
"""The table of all operators, and the limits of TOSA that hold for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from delegatec.backends.arm.conformance.limits import MOST_DIMENSIONS
from delegatec.backends.arm.dtypes import ALL
from delegatec.backends.arm.operators import (
    block_scaled,
    casts,
    control_flow,
    creation,
    elementwise,
    gather_scatter,
    images,
    integers,
    logic,
    moves,
    products,
    reductions,
    shifts,
)
from delegatec.backends.arm.operators.row import Constraint, OperatorRow
from delegatec.backends.arm.static_sizes import STATIC
from delegatec.backends.common.table import OperatorTable
from delegatec.edge.legalize.constraints import known_dtypes, no_empty_tensors, rank_at_most

aten = torch.ops.aten

_FAMILIES: Final[Mapping[str, tuple[OperatorRow, ...]]] = {
    "Functions of elements": elementwise.ROWS,
    "Comparisons, logic and selection": (*logic.ROWS, *shifts.ROWS),
    "Conversions": casts.ROWS,
    "Creation": creation.ROWS,
    "Integers": integers.ROWS,
    "Matrix products": products.ROWS,
    "Blocks with scales": block_scaled.ROWS,
    "Reductions": reductions.ROWS,
    "Images": images.ROWS,
    "Gather and scatter": gather_scatter.ROWS,
    "Moves": moves.ROWS,
    "Control flow": control_flow.ROWS,
}

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

TABLE: Final = OperatorTable(_FAMILIES, UNIVERSAL, private=(aten.split_with_sizes.default,))
