# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes, and copies."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import converted
from delegatec.backends.xnnpack.operators.row import OperatorRow, operator_row
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import contiguous

_CONTIGUOUS: Final = contiguous("values are row-major.")


def _to_copy(b: GraphBuilder, node: Node) -> None:
    b.alias(node, converted(b, b.of(bind(node)["self"]), dtype_of(node)))


def _clone(b: GraphBuilder, node: Node) -> None:
    b.alias(node, b.of(bind(node)["self"]))


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row("_to_copy", _to_copy, _CONTIGUOUS, resizes=True, computes=False),
    operator_row("clone", _clone, _CONTIGUOUS, resizes=True, computes=False, note="no operation"),
)
