# SPDX-License-Identifier: Apache-2.0
"""The table of all operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch

from delegatec.backends.common.table import OperatorTable
from delegatec.backends.xnnpack.operators import (
    activation,
    conversion,
    creation,
    elementwise,
    images,
    logic,
    matmul_along_dim,
    moves,
    products,
    quantized,
    reduction,
)
from delegatec.backends.xnnpack.operators.row import OperatorRow
from delegatec.backends.xnnpack.operators.rules import UNIVERSAL

aten = torch.ops.aten

_FAMILIES: Final[Mapping[str, tuple[OperatorRow, ...]]] = {
    "Functions of elements": elementwise.ROWS,
    "Activation": activation.ROWS,
    "Comparison, logic, selection": logic.ROWS,
    "Matrix products": products.ROWS,
    "Reduction": reduction.ROWS,
    "Images": images.ROWS,
    "Shape": (*moves.ROWS, *matmul_along_dim.ROWS),
    "Creation and conversion": (*creation.ROWS, *conversion.ROWS),
    "Quantization": quantized.ROWS,
}

TABLE: Final = OperatorTable(
    _FAMILIES,
    UNIVERSAL,
    private=(aten.matmul.default, aten.split_with_sizes.default, aten.stack.default),
)
