# SPDX-License-Identifier: Apache-2.0
"""The table of all operators.

Partitioner, preprocess, documentation and tests read it; nothing else says what is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.mps.compile_spec import Precision
from delegatec.backends.mps.operators.elementwise import (
    activation,
    binary,
    creation,
    division,
    logic,
    power,
    roots,
    selection,
    unary,
)
from delegatec.backends.mps.operators.layers import (
    adaptive_pooling,
    convolution,
    linear_algebra,
    normalization,
    overlap,
    padding,
    pooling,
    resizing,
    sampling,
)
from delegatec.backends.mps.operators.lookups import accumulation, indexing, scattering
from delegatec.backends.mps.operators.moves import rearrangement, shape
from delegatec.backends.mps.operators.quantized import weights as quantized
from delegatec.backends.mps.operators.reductions import extrema, ordering, reduction
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import UNIVERSAL

FAMILIES: Final[Mapping[str, tuple[OperatorRow, ...]]] = {
    "Activation": activation.ROWS,
    "Functions of one tensor": (*unary.ROWS, *roots.ROWS),
    "Arithmetic": (*binary.ROWS, *division.ROWS, *power.ROWS),
    "Comparison, logic, bits": logic.ROWS,
    "Selection": selection.ROWS,
    "Matrix products": linear_algebra.ROWS,
    "Convolution": convolution.ROWS,
    "Normalisation": normalization.ROWS,
    "Pooling": (*pooling.ROWS, *adaptive_pooling.ROWS),
    "Padding": padding.ROWS,
    "Overlapping windows": overlap.ROWS,
    "Resizing": resizing.ROWS,
    "Reduction": reduction.ROWS,
    "Extrema with their positions": extrema.ROWS,
    "Order and running sums": ordering.ROWS,
    "Look-up": (*indexing.ROWS, *sampling.ROWS),
    "Replacement": (*scattering.ROWS, *accumulation.ROWS),
    "Shape": (*shape.ROWS, *rearrangement.ROWS),
    "Creation and conversion": creation.ROWS,
    "Quantised weights": quantized.ROWS,
}


def index_rows(rows: Iterable[OperatorRow]) -> dict[Any, OperatorRow]:
    """Rows by overload.

    Raises:
        ValueError: two rows have the same overload.
    """
    table: dict[OpOverload, OperatorRow] = {}
    for row in rows:
        if row.target in table:
            raise ValueError(f"{row.target} has two rows")
        table[row.target] = row
    return table


ROWS: Final = index_rows(itertools.chain.from_iterable(FAMILIES.values()))


def broken_constraint(row: OperatorRow, node: Node, precision: Precision) -> tuple[Constraint, str] | None:
    """The first constraint that a node breaks, and how; None if the node can be lowered."""
    for constraint in (*UNIVERSAL, *row.constraints):
        message = constraint.broken(node, precision)
        if message is not None:
            return constraint, message
    return None
