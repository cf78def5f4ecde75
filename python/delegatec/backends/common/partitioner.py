# SPDX-License-Identifier: Apache-2.0
"""The partitioner of backends with an operator table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from torch.fx import Node

from delegatec.backends.common.table import OperatorTable
from delegatec.delegation.call_delegate import call_delegate
from delegatec.delegation.grouping import connected_components, convex_groups
from delegatec.delegation.partitioner import DelegationSpec, Partitioning, Rejection
from delegatec.edge.program import EdgeProgram

SettingsT = TypeVar("SettingsT")


class TablePartitioner(Generic[SettingsT]):
    """Takes each node that has a row and satisfies its constraints.

    Args:
        table: the backend's operators.
        delegation: the backend and its compile specs.
        settings: its options, for the constraints.
    """

    def __init__(
        self, table: OperatorTable[Any, SettingsT], delegation: DelegationSpec, settings: SettingsT
    ) -> None:
        self._table = table
        self._delegation = delegation
        self._settings = settings

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `Partitioner.partition`. Connected parts that only move data are not worth a call."""
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        index = {node: position for position, node in enumerate(nodes)}
        predecessors = [[index[s] for s in node.all_input_nodes if s in index] for node in nodes]
        rejections: list[Rejection] = []
        taken: list[bool] = []
        for node, sources in zip(nodes, predecessors, strict=True):
            if node.target is operator.getitem:
                taken.append(all(taken[source] for source in sources))
                continue
            rejection = self._table.rejection(node, self._settings)
            taken.append(rejection is None)
            if rejection is not None and node.target is not call_delegate:
                rejections.append(rejection)
        groups, trivial = worthwhile_groups(nodes, predecessors, taken, self.is_worthwhile)
        rejections += [
            Rejection(
                nodes[i],
                "trivial",
                "it and what it is connected to only move data, which is not worth the call of a delegate",
            )
            for i in trivial
            if nodes[i].target is not operator.getitem
        ]
        rejections.sort(key=lambda rejection: index[rejection.node])
        return Partitioning(self._delegation, [[nodes[i] for i in group] for group in groups], rejections)

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """Returns whether any of the nodes does more than move data."""
        return self._table.computes(nodes)


def worthwhile_groups(
    nodes: Sequence[Node],
    predecessors: Sequence[Sequence[int]],
    taken: Sequence[bool],
    is_worthwhile: Callable[[Sequence[Node]], bool],
) -> tuple[list[list[int]], list[int]]:
    """Returns convex groups without the connected parts that compute nothing.

    Args:
        nodes: all operator nodes, in topological order.
        predecessors: for each, indices of its operands.
        taken: for each, whether the delegate supports it.
        is_worthwhile: whether connected nodes are worth the call of a delegate.

    Returns:
        The groups, and the indices of the nodes whose part computes nothing.
    """
    left: list[int] = []
    kept = list(taken)
    while True:
        groups = convex_groups(predecessors, kept)
        dropped = [
            i
            for group in groups
            for part in connected_components(group, predecessors)
            if not is_worthwhile([nodes[i] for i in part])
            for i in part
        ]
        if not dropped:
            return groups, left
        # Without them, groups may merge: a path through them no longer leaves a delegate.
        left += dropped
        for i in dropped:
            kept[i] = False
