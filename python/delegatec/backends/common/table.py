# SPDX-License-Identifier: Apache-2.0
"""The table of a backend's operators.

It is the single source of supported operators for partitioner, preprocess, documentation and tests.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from delegatec.backends.common.row import OperatorRow
from delegatec.delegation.delegates.operators import operator_name
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.legalize.constraint import Constraint
from delegatec.edge.legalize.rule import Refusal, first_broken
from delegatec.edge.symbols import is_scalar


class GraphBuilder(Protocol):
    """The graph that lowerings append to.

    Attributes:
        current: the node that is being lowered; None between nodes.
    """

    current: Node | None


BuilderT = TypeVar("BuilderT", bound=GraphBuilder)
SettingsT = TypeVar("SettingsT")


class OperatorTable(Generic[BuilderT, SettingsT]):
    """Rows by overload, and the constraints of all rows.

    Args:
        families: title -> rows, in the order of the documentation.
        universal: constraints of all rows; they depend only on dtypes and shapes of operands and results.
        private: ATen operators that are not in normal form: only passes and rewrites of private programs
            create calls of them.

    Attributes:
        families: as given.
        universal: as given.
        private: as given.
        rows: overload -> its row.

    Raises:
        ValueError: two rows have the same overload; a private operator has no row.
    """

    def __init__(
        self,
        families: Mapping[str, Sequence[OperatorRow[BuilderT, SettingsT]]],
        universal: Sequence[Constraint[SettingsT]],
        private: Collection[OpOverload] = (),
    ) -> None:
        self.families = families
        self.universal = universal
        self.private = frozenset(private)
        self.rows: dict[Any, OperatorRow[BuilderT, SettingsT]] = {}
        for row in itertools.chain.from_iterable(families.values()):
            if row.target in self.rows:
                raise ValueError(f"{row.target} has two rows")
            self.rows[row.target] = row
        if missing := self.private - self.rows.keys():
            raise ValueError(f"no rows: {', '.join(sorted(map(str, missing)))}")

    def refusal(self, node: Node, settings: SettingsT, facts: Facts) -> Refusal | None:
        """Returns the first violated constraint of its row; None if the node can be lowered unchanged."""
        row = self.rows.get(node.target)
        if row is None and isinstance(node.target, HigherOrderOperator):
            message = f"{operator_name(node)} runs on the CPU; its bodies are partitioned separately"
            return Refusal("operator", message)
        if row is None:
            return Refusal("operator", f"the delegate does not support {operator_name(node)}")
        return first_broken(row.constraints, node, settings) or first_broken(row.known, node, facts)

    def exclusion(self, node: Node, settings: SettingsT) -> Refusal | None:
        """Returns the first violated constraint of all rows, which no rewrite can satisfy."""
        return first_broken(self.universal, node, settings)

    def preserved(self) -> frozenset[OpOverload]:
        """Returns the operators that must not be decomposed."""
        return frozenset(
            row.target for row in self.rows.values() if row.preserved and isinstance(row.target, OpOverload)
        )

    def lower(self, builder: BuilderT, nodes: Iterable[Node]) -> None:
        """Lowers supported nodes, in topological order. Scalars are lowered where they are used."""
        for node in nodes:
            if node.target is not operator.getitem and not is_scalar(node):
                builder.current = node
                self.rows[node.target].lower(builder, node)
        builder.current = None
