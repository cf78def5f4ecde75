# SPDX-License-Identifier: Apache-2.0
"""Rows of the operator table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common import row
from delegatec.backends.common.row import overload
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.operators.rules import FLOAT_OPERANDS, STATIC
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize import constraint

Constraint: TypeAlias = constraint.Constraint[Settings]
KnownConstraint: TypeAlias = constraint.Constraint[Facts]
OperatorRow: TypeAlias = row.OperatorRow[QuantizedBuilder, Settings]
Lower = Callable[[QuantizedBuilder, Node], None]


def operator_row(
    name: str | OpOverload,
    lower: Lower,
    *constraints: Constraint,
    resizes: bool = False,
    dtypes: Constraint = FLOAT_OPERANDS,
    computes: bool = True,
    preserved: bool = False,
    note: str = "",
    known: tuple[KnownConstraint, ...] = (),
) -> OperatorRow:
    """Returns a row.

    Args:
        name: of the overload in ATen, or another overload.
        lower: its lowering.
        *constraints: additional ones of this row.
        resizes: whether sizes may be dynamic.
        dtypes: of the operands; by default float32 and float16.
        computes: whether it does more than move data.
        preserved: whether it must not be decomposed before partitioning.
        note: a remark for the operator table of the docs.
        known: constraints on values that analysis must prove.
    """
    target = overload(name) if isinstance(name, str) else name
    fixed = (*(() if resizes else (STATIC,)), dtypes, *constraints)
    return row.OperatorRow(target, lower, fixed, computes, note, preserved, known)
