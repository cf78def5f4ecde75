# SPDX-License-Identifier: Apache-2.0
"""Reductions along dimensions, and softmax."""

from __future__ import annotations

import functools
from typing import Final

from torch.fx import Node

from delegatec.backends.xnnpack.building.graph_builder import GraphBuilder
from delegatec.backends.xnnpack.building.operations import softmax_of_rows, transposed
from delegatec.backends.xnnpack.operators.row import OperatorRow, operator_row
from delegatec.edge.arguments import bind, positive
from delegatec.edge.legalize.constraints import HAS_AXIS

_row: Final = functools.partial(operator_row, resizes=True)


def _softmax(b: GraphBuilder, node: Node) -> None:
    """Computes a softmax; transposes if the dimension is not the last one."""
    bound = bind(node)
    source = b.of(bound["self"])
    rank = len(b.shape_of(source))
    dim = positive(bound["dim"], rank)
    swapped = list(range(rank))
    swapped[dim], swapped[-1] = swapped[-1], swapped[dim]
    b.alias(node, transposed(b, softmax_of_rows(b, transposed(b, source, swapped)), swapped))


ROWS: Final[tuple[OperatorRow, ...]] = (
    _row("_softmax", _softmax, HAS_AXIS, note="between transposes unless it is the last dimension"),
)
