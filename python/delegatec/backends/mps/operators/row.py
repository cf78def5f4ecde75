# SPDX-License-Identifier: Apache-2.0
"""Rows of the operator table."""

from __future__ import annotations

from typing import TypeAlias

from delegatec.backends.common import row
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.compile_spec import Settings
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize import constraint

Constraint: TypeAlias = constraint.Constraint[Settings]
ByFacts: TypeAlias = constraint.Constraint[Facts]
OperatorRow: TypeAlias = row.OperatorRow[GraphBuilder, Settings]
