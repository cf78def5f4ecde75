# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes, and copies."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import operand
from delegatec.backends.xnnpack.operators.row import Constraint, OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import contiguous

_CONTIGUOUS: Final = contiguous("values are row-major.")


def _to_copy(b: GraphBuilder, node: Node) -> None:
    source, dtype = bind(node)["self"], dtype_of(node)
    b.alias(node, b.of(source) if dtype == torch.bool else operand(b, source, dtype))


def _compares(node: Node, _: object) -> str | None:
    is_compared = dtype_of(node) == torch.bool and dtype_of(bind(node)["self"]) != torch.bool
    return "to bool" if is_compared else None


_COMPUTED: Final = Constraint("dtype", "Bools are computed by a comparison with zero.", _compares)


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row(
        "_to_copy", _to_copy, _CONTIGUOUS, _COMPUTED, dtypes=FLOATS_OR_BOOLS, resizes=True, computes=False
    ),
)
