# SPDX-License-Identifier: Apache-2.0
"""The table of a backend's operators.

Partitioner, preprocess, documentation and tests read it; nothing else says what a backend takes.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from delegatec.backends.common.row import Constraint, OperatorRow
from delegatec.delegation.partitioner import Rejection
from delegatec.delegation.report import operator_name


class Lowers(Protocol):
    """What a lowering appends to.

    Attributes:
        current: the node that is lowered; None between nodes.
    """

    current: Node | None


BuilderT = TypeVar("BuilderT", bound=Lowers)
SettingsT = TypeVar("SettingsT")


class OperatorTable(Generic[BuilderT, SettingsT]):
    """Rows by overload, and the constraints that hold for all.

    Args:
        families: title -> rows, in the order of the documentation.
        universal: what every node must satisfy.

    Attributes:
        families: as given.
        universal: as given.
        rows: overload -> its row.

    Raises:
        ValueError: two rows have the same overload.
    """

    def __init__(
        self,
        families: Mapping[str, Sequence[OperatorRow[BuilderT, SettingsT]]],
        universal: Sequence[Constraint[SettingsT]],
    ) -> None:
        self.families = families
        self.universal = universal
        self.rows: dict[Any, OperatorRow[BuilderT, SettingsT]] = {}
        for row in itertools.chain.from_iterable(families.values()):
            if row.target in self.rows:
                raise ValueError(f"{row.target} has two rows")
            self.rows[row.target] = row

    def rejection(self, node: Node, settings: SettingsT) -> Rejection | None:
        """Why a node cannot be lowered, by the first constraint that it breaks; None if it can."""
        if isinstance(node.target, HigherOrderOperator):
            message = f"{operator_name(node)} runs on the CPU; its bodies have delegates of their own"
            return Rejection(node, "operator", message)
        row = self.rows.get(node.target)
        if row is None:
            return Rejection(node, "operator", f"the delegate has no lowering for {operator_name(node)}")
        for constraint in (*self.universal, *row.constraints):
            broken = constraint.broken(node, settings)
            if broken is not None:
                return Rejection(node, constraint.rule, f"{broken}. {constraint.doc}", constraint.help)
        return None

    def computes(self, nodes: Iterable[Node]) -> bool:
        """Whether any of the nodes computes something, rather than only moving data."""
        return any(node.target in self.rows and self.rows[node.target].computes for node in nodes)

    def preserved(self) -> frozenset[OpOverload]:
        """Composite operators that have a row which is better than the rows of their parts."""
        return frozenset(row.target for row in self.rows.values() if row.preserved)

    def lower(self, builder: BuilderT, nodes: Iterable[Node]) -> None:
        """Lowers nodes that were taken, in topological order."""
        for node in nodes:
            if node.target is not operator.getitem:
                builder.current = node
                self.rows[node.target].lower(builder, node)
        builder.current = None
