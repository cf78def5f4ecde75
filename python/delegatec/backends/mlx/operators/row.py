# SPDX-License-Identifier: Apache-2.0
"""Rows of the operator table, and rows for families of operators with the same lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common import row
from delegatec.backends.common.row import overload
from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize import constraint

Constraint: TypeAlias = constraint.Constraint[Settings]
ByFacts: TypeAlias = constraint.Constraint[Facts]
OperatorRow: TypeAlias = row.OperatorRow[GraphBuilder, Settings]
Lower = Callable[[GraphBuilder, Node], None]


def operator_row(
    name: str | OpOverload,
    lower: Lower,
    *constraints: Constraint,
    note: str = "",
    preserved: bool = False,
    known: tuple[ByFacts, ...] = (),
) -> OperatorRow:
    """Returns a row for an overload, given by its name in ATen or itself; see `OperatorRow`."""
    target = overload(name) if isinstance(name, str) else name
    return OperatorRow(target, lower, constraints, note=note, preserved=preserved, known=known)


def family(
    members: Mapping[str, str],
    lower: Callable[[str], Lower],
    *constraints: Constraint,
    note: str = "",
    preserved: bool = False,
) -> list[OperatorRow]:
    """Returns one row per member.

    Args:
        members: name of an overload -> name of the emitted node.
        lower: the family's lowering, for a node.
        *constraints: of each row.
        note: of each row.
        preserved: whether none must be decomposed before partitioning.
    """
    return [
        operator_row(name, lower(node), *constraints, note=note, preserved=preserved)
        for name, node in members.items()
    ]


def movement(
    name: str, lower: Lower, *constraints: Constraint, note: str = "", preserved: bool = False
) -> OperatorRow:
    """Returns a row for an overload that only moves elements; see `operator_row`."""
    return OperatorRow(overload(name), lower, constraints, computes=False, note=note, preserved=preserved)
