# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import FLOATS_8, TO_TOSA, VALUES
from delegatec.backends.arm.operators.conversion import converted
from delegatec.backends.arm.operators.row import operator_row
from delegatec.edge.arguments import bind, dtype_of


def _to_copy(b: GraphBuilder, node: Node) -> None:
    b.alias(node, converted(b, b.of(bind(node)["self"]), TO_TOSA[dtype_of(node)]))


ROWS: Final = (operator_row("_to_copy", _to_copy, VALUES | FLOATS_8, computes=False),)
