# SPDX-License-Identifier: Apache-2.0
"""The table of all operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

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
from delegatec.backends.arm.operators.row import OperatorRow
from delegatec.backends.arm.operators.rules import UNIVERSAL
from delegatec.backends.common.table import OperatorTable

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

TABLE: Final = OperatorTable(_FAMILIES, UNIVERSAL, private=(aten.split_with_sizes.default,))
