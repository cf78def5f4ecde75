# SPDX-License-Identifier: Apache-2.0
"""Matrix products: MATMUL multiplies batches of matrices."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.dtypes import FLOATS
from delegatec.backends.arm.operators.row import operator_row, zero_point
from delegatec.edge.arguments import bind, shape_of


def _product(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    first, second = (b.ranked(b.of(bound[name]), 3) for name in ("self", "mat2"))
    shape = (first.shape[0], first.shape[1], second.shape[2])
    zeros = (zero_point(b, first), zero_point(b, second))
    product = b.emit("MATMUL", first, second, *zeros, shape=shape)
    b.alias(node, b.reshaped(product, shape_of(node)))


ROWS: Final = (
    operator_row("mm", _product, FLOATS),
    operator_row("bmm", _product, FLOATS),
)
