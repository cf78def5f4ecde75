# SPDX-License-Identifier: Apache-2.0
"""Rows of the operator table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import TO_TOSA
from delegatec.backends.arm.operators.conversion import converted
from delegatec.backends.arm.settings import Settings
from delegatec.backends.common import row
from delegatec.backends.common.row import overload
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import operand_dtypes

Constraint: TypeAlias = constraint.Constraint[Settings]
KnownConstraint: TypeAlias = constraint.Constraint[Facts]
OperatorRow: TypeAlias = row.OperatorRow[GraphBuilder, Settings]
Lower: TypeAlias = Callable[[GraphBuilder, Node], None]
Operand: TypeAlias = Node | bool | int | float


def operator_row(
    target: str | OpOverload,
    lower: Lower,
    dtypes: Collection[torch.dtype],
    *constraints: Constraint,
    computes: bool = True,
    note: str = "",
    preserved: bool = False,
    known: tuple[KnownConstraint, ...] = (),
) -> OperatorRow:
    """Returns a row. Rules of TOSA need no constraint: each emitted operator is checked.

    Args:
        target: the name of an overload of ATen, or another overload.
        lower: its lowering.
        dtypes: of the operands that the lowering is right for.
        *constraints: besides.
        computes: whether it does more than move data.
        note: a remark for the operator table of the docs.
        preserved: whether it must not be decomposed before partitioning.
        known: constraints on values that analysis must prove.
    """
    operands = operand_dtypes(dtypes, "TOSA has no such operator for others.")
    found = overload(target) if isinstance(target, str) else target
    return OperatorRow(found, lower, (operands, _IN_RANGE, *constraints), computes, note, preserved, known)


def _beyond_int32(node: Node, _: object) -> str | None:
    for argument, value in zip(node.target._schema.arguments, bind(node).values(), strict=True):  # type: ignore[union-attr]
        if str(argument.type) == "number" and type(value) is int and not -(1 << 31) <= value < 1 << 31:
            return f"{argument.name} is {value}"
    return None


_IN_RANGE: Final[Constraint] = constraint.Constraint(
    "argument", "Scalars are in the range of int32: TOSA has no wider integers.", _beyond_int32
)


def operand(b: GraphBuilder, value: Operand, node: Node, kind: int | None = None) -> Value:
    """Returns an operand of an elementwise operator, in the rank of the result.

    Args:
        b: the graph.
        value: a node or a scalar.
        node: the operator.
        kind: type of the operand in TOSA; by default that of the result.
    """
    kind = TO_TOSA[node.meta["val"].dtype] if kind is None else kind
    rank = len(shape_of(node))
    if not isinstance(value, Node):
        return b.scalar(value, kind, rank)
    return converted(b, b.ranked(b.of(value), rank), kind)


def zero_point(b: GraphBuilder, value: Value, zero: int = 0) -> Value:
    """Returns a zero point as an operand, in the type of the value that it is for."""
    return b.scalar(zero, value.dtype)
