# SPDX-License-Identifier: Apache-2.0
"""The table as a target of legalization: a call is legal if the operators that its row emits are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import REGIONS, Operation
from delegatec.backends.arm.capabilities import families
from delegatec.backends.arm.conformance.problem import problem
from delegatec.backends.arm.conformance.types import type_problem
from delegatec.backends.arm.operators.rewrites import WITHOUT_INTEGERS
from delegatec.backends.arm.settings import Settings
from delegatec.backends.common.legality import TableTarget
from delegatec.backends.common.table import OperatorTable
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.rule import Refusal, Rewrites, Rule


class TosaTarget(TableTarget[Settings]):
    """Emits a call into a separate graph, and checks each operator."""

    def __init__(self, table: OperatorTable[Any, Settings], rewrites: Rewrites, settings: Settings) -> None:
        """See `TableTarget`. Without the profile INT, integers are moved and compared as floats."""
        super().__init__(table, rewrites if settings.specification.integer else WITHOUT_INTEGERS, settings)

    @property
    def control_flow(self) -> Collection[Any]:
        """See `TableTarget.control_flow`."""
        specification = self.settings.specification
        supported = "cf" in specification.extensions and specification.mark not in families.SMALL_FAMILIES
        return super().control_flow if supported else ()

    def rules(self, node: Node) -> Sequence[Rule]:
        """See `Target.rules`. The result of a rewrite may be an operand, whose type no operator checks."""
        value = node.meta["val"]
        is_bfloat16 = isinstance(value, Tensor) and value.dtype == torch.bfloat16
        return (
            ()
            if is_bfloat16 and "bf16" not in self.settings.specification.extensions
            else super().rules(node)
        )

    def refusal(self, node: Node, facts: Facts) -> Refusal | None:
        """See `Target.refusal`."""
        refused = super().refusal(node, facts)
        return refused or self._emitted(node, facts)

    def _emitted(self, node: Node, facts: Facts) -> Refusal | None:
        target: Any = node.target
        builder = GraphBuilder(self.settings, facts=facts)
        builder.current = node
        self.table.rows[target].lower(builder, node)
        for operation in builder.operations:
            found = self._problem(operation)
            if found is not None:
                return Refusal("tosa", found)
        if not builder.operations and isinstance(node.meta["val"], Tensor):
            # a constant, or an operand itself: its type has not been checked, and it may be an output
            value = builder.of(node)
            found = type_problem(Operation("IDENTITY", (value,), (value,), {}), self.settings.specification)
            if found is not None:
                return Refusal("tosa", found)
        return None

    def _problem(self, operation: Operation) -> str | None:
        specification = self.settings.specification
        found = problem(operation, specification)
        if specification.mark and (found is None or operation.name in REGIONS):
            found = families.problem(specification.mark, operation) or found
        return found
