# SPDX-License-Identifier: Apache-2.0
"""Rows for families of operators with the same lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.row import ByFacts, Constraint, OperatorRow

Lower = Callable[[GraphBuilder, Node], None]


def family(
    members: Mapping[str, str],
    lower: Callable[[int], Lower],
    *constraints: Constraint,
    known: tuple[ByFacts, ...] = (),
    note: str = "",
) -> list[OperatorRow]:
    """Returns one row per member.

    Args:
        members: name of an overload -> name of the emitted operation.
        lower: the family's lowering, for a type of operation.
        *constraints: of each row.
        known: facts that each row needs about its operands.
        note: of each row.
    """
    return [
        OperatorRow(overload(name), lower(getattr(Operation, operation)), constraints, known=known, note=note)
        for name, operation in members.items()
    ]


def movement(name: str, lower: Lower, *constraints: Constraint, note: str = "") -> OperatorRow:
    """Returns a row for an overload that only moves elements.

    Args:
        name: the overload.
        lower: its lowering.
        *constraints: constraints of a node.
        note: a remark for readers of the table.
    """
    return OperatorRow(overload(name), lower, constraints, computes=False, note=note)
