# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes, and copies."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.building.bool_emulation import is_equal, negated
from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import converted, operand
from delegatec.backends.xnnpack.operators.row import OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import contiguous

_CONTIGUOUS: Final = contiguous("values are row-major.")


def _to_copy(b: GraphBuilder, node: Node) -> None:
    """Converts; a value is true unless it equals zero."""
    source, dtype = bind(node)["self"], dtype_of(node)
    if dtype != torch.bool:
        b.alias(node, operand(b, source, dtype))
    elif dtype_of(source) == torch.bool:
        b.alias(node, b.of(source))
    else:
        zero = b.number(0.0, dtype_of(source))
        result = negated(b, is_equal(b, b.of(source), zero))
        b.alias(node, converted(b, result, b.truth_dtype))


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row("_to_copy", _to_copy, _CONTIGUOUS, dtypes=FLOATS_OR_BOOLS, resizes=True, computes=False),
)
