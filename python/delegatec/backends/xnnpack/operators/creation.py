# SPDX-License-Identifier: Apache-2.0
"""Tensors filled with a scalar."""

from __future__ import annotations

from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.operators.row import OperatorRow, operator_row
from delegatec.backends.xnnpack.operators.rules import FLOATS_OR_BOOLS
from delegatec.edge.arguments import bind, dtype_of, shape_of


def _full(b: GraphBuilder, node: Node) -> None:
    """Adds a constant; a scalar is clamped to the range of float16."""
    dtype, scalar = dtype_of(node), bind(node)["fill_value"]
    if dtype == torch.bool:
        dtype, scalar = b.bool_dtype, float(bool(scalar))
    if not shape_of(node):
        b.alias(node, b.scalar(scalar, dtype))
        return
    filled = torch.full(shape_of(node), b.representable(scalar, dtype), dtype=dtype)
    b.alias(node, b.shared(("full", filled.shape, repr(scalar), dtype), lambda: b.constant(filled, dtype)))


ROWS: Final[tuple[OperatorRow, ...]] = (
    operator_row("full", _full, dtypes=FLOATS_OR_BOOLS, computes=False, note="a constant"),
)
