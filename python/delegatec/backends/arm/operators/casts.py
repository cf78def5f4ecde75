# SPDX-License-Identifier: Apache-2.0
"""Conversions between dtypes."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import FLOATS_8, TO_TOSA, VALUES
from delegatec.backends.arm.operators.conversion import converted
from delegatec.backends.arm.operators.row import Constraint, operator_row
from delegatec.edge.arguments import bind, dtype_of, short_name


def _to_copy(b: GraphBuilder, node: Node) -> None:
    b.alias(node, converted(b, b.of(bind(node)["self"]), TO_TOSA[dtype_of(node)]))


def _unsigned(node: Node, _: object) -> str | None:
    source = dtype_of(node.all_input_nodes[0])
    is_unsigned = source.is_floating_point and dtype_of(node) == torch.uint8
    return f"{short_name(source)} to uint8" if is_unsigned else None


_SIGNED: Final[Constraint] = Constraint(
    "dtype", "No conversion of floating point to uint8: CAST saturates at 127, the largest int8.", _unsigned
)

ROWS: Final = (operator_row("_to_copy", _to_copy, VALUES | FLOATS_8, _SIGNED, computes=False),)
