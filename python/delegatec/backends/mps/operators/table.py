# SPDX-License-Identifier: Apache-2.0
"""The table of all operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from delegatec.backends.common.table import OperatorTable
from delegatec.backends.mps.operators.elementwise import (
    activation,
    binary,
    creation,
    division,
    logic,
    power,
    selection,
    unary,
)
from delegatec.backends.mps.operators.indexing import gather_scatter
from delegatec.backends.mps.operators.layers import (
    convolution,
    linear_algebra,
    normalization,
    padding,
    pooling,
)
from delegatec.backends.mps.operators.moves import shape
from delegatec.backends.mps.operators.quantized import weights as quantized
from delegatec.backends.mps.operators.reductions import reduction
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import UNIVERSAL

aten = torch.ops.aten

_FAMILIES: Final[Mapping[str, tuple[OperatorRow, ...]]] = {
    "Activation": activation.ROWS,
    "Functions of one tensor": unary.ROWS,
    "Arithmetic": (*binary.ROWS, *division.ROWS, *power.ROWS),
    "Comparison, logic, bits": logic.ROWS,
    "Selection": selection.ROWS,
    "Matrix products": linear_algebra.ROWS,
    "Convolution": convolution.ROWS,
    "Normalization": normalization.ROWS,
    "Pooling": pooling.ROWS,
    "Padding": padding.ROWS,
    "Reduction": reduction.ROWS,
    "Gather": gather_scatter.ROWS,
    "Scatter": gather_scatter.SCATTERS,
    "Shape": shape.ROWS,
    "Creation and conversion": creation.ROWS,
    "Quantized weights": quantized.ROWS,
}

TABLE: Final = OperatorTable(
    _FAMILIES, UNIVERSAL, private=(aten.exp2.default, aten.fmin.default, aten.split_with_sizes.default)
)
