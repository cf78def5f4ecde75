# SPDX-License-Identifier: Apache-2.0
"""Padding by a scalar."""

from __future__ import annotations

from typing import Final

from delegatec_schemas.mps_graph import ConstantPadT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.dtypes import NUMERIC
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import exact_scalar
from delegatec.edge.arguments import bind, dtype_of
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rules.padding import INNERMOST


def _constant(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    value = b.representable(bound["value"] or 0, dtype_of(node))
    table = ConstantPadT(b.of(bound["self"]), b.result(node), pad=list(bound["pad"]), value=value)
    b.emit(Operation.ConstantPadND, table)


def _amounts(node: Node, _: object) -> str | None:
    amounts = bind(node)["pad"]
    fits = 0 < len(amounts) <= 2 * INNERMOST and min(amounts) >= 0 and any(amounts[-2:])
    return None if fits else f"pad is {list(amounts)}"


ROWS: Final = (
    OperatorRow(
        overload("constant_pad_nd"),
        _constant,
        (
            operand_dtypes(NUMERIC, "MPSGraph does not pad bool."),
            exact_scalar("value"),
            Constraint("argument", "Amounts are positive, of the last three dimensions at most.", _amounts),
        ),
        computes=False,
    ),
)
