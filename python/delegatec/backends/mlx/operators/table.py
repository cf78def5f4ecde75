# SPDX-License-Identifier: Apache-2.0
"""The table of all operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from delegatec.backends.common.table import OperatorTable
from delegatec.backends.mlx.operators.control_flow import control_flow
from delegatec.backends.mlx.operators.elementwise import binary, creation, selection, unary
from delegatec.backends.mlx.operators.indexing import gather, scatter
from delegatec.backends.mlx.operators.layers import (
    attention,
    convolution,
    linear_algebra,
    normalization,
    pooling,
)
from delegatec.backends.mlx.operators.moves import shape
from delegatec.backends.mlx.operators.quantized import weights
from delegatec.backends.mlx.operators.reductions import order, reduction
from delegatec.backends.mlx.operators.row import OperatorRow
from delegatec.backends.mlx.operators.rules import UNIVERSAL

_FAMILIES: Final[Mapping[str, tuple[OperatorRow, ...]]] = {
    "Functions of one tensor": unary.ROWS,
    "Arithmetic": binary.ROWS,
    "Comparison, logic, bits": binary.LOGIC,
    "Selection": selection.ROWS,
    "Matrix products": linear_algebra.ROWS,
    "Quantized weights": weights.ROWS,
    "Convolution": convolution.ROWS,
    "Pooling": pooling.ROWS,
    "Normalization": normalization.ROWS,
    "Attention": attention.ROWS,
    "Reduction": reduction.ROWS,
    "Order": order.ROWS,
    "Gather": gather.ROWS,
    "Scatter": scatter.ROWS,
    "Shape": shape.ROWS,
    "Creation and conversion": creation.ROWS,
    "Control flow": control_flow.ROWS,
}

TABLE: Final = OperatorTable(_FAMILIES, UNIVERSAL)
