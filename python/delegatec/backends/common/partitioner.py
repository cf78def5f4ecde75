# SPDX-License-Identifier: Apache-2.0
"""The partitioner of backends with an operator table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch.fx import Node

from delegatec.backends.common.legality import Legality, Prepare, TableTarget
from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.delegation.grouping import connected_components, convex_groups
from delegatec.delegation.protocol.partitioner import DelegationSpec, Partitioning, Rejection
from delegatec.edge.program import EdgeProgram

SettingsT = TypeVar("SettingsT")


class TablePartitioner(Generic[SettingsT]):
    """Groups the nodes that have a row and satisfy its constraints, or can be rewritten to such nodes.

    Args:
        target: the backend's rows and rewrites.
        delegation: the backend and its compile specs.
        prepare: passes over a private program that run before it is legalized.
    """

    def __init__(
        self, target: TableTarget[SettingsT], delegation: DelegationSpec, prepare: Sequence[Prepare] = ()
    ) -> None:
        self._target = target
        self._delegation = delegation
        self._prepare = prepare

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `Partitioner.partition`. Connected components that only move data are not worth a call."""
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        index = {node: position for position, node in enumerate(nodes)}
        predecessors = [[index[s] for s in node.all_input_nodes if s in index] for node in nodes]
        legality = Legality(self._target, self._prepare)
        rejections: list[Rejection] = []
        supported: list[bool] = []
        for node, sources in zip(nodes, predecessors, strict=True):
            if node.target is operator.getitem:
                supported.append(all(supported[source] for source in sources))
                continue
            rejection = legality.rejection(program, node)
            supported.append(rejection is None)
            if rejection is not None and node.target is not call_delegate:
                rejections.append(rejection)
        groups, trivial = worthwhile_groups(nodes, predecessors, supported, self.is_worthwhile)
        rejections += [
            Rejection(
                nodes[i],
                "trivial",
                "it is part of a group that only moves data, which is not worth the call of a delegate",
            )
            for i in trivial
            if nodes[i].target is not operator.getitem
        ]
        rejections.sort(key=lambda rejection: index[rejection.node])
        return Partitioning(self._delegation, [[nodes[i] for i in group] for group in groups], rejections)

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """Whether any of the nodes does more than move data."""
        return self._target.computes(nodes)


def worthwhile_groups(
    nodes: Sequence[Node],
    predecessors: Sequence[Sequence[int]],
    supported: Sequence[bool],
    is_worthwhile: Callable[[Sequence[Node]], bool],
) -> tuple[list[list[int]], list[int]]:
    """Returns convex groups without connected components that compute nothing.

    Args:
        nodes: all operator nodes, in topological order.
        predecessors: for each, indices of its operands.
        supported: for each, whether the delegate supports it.
        is_worthwhile: whether connected nodes are worth the call of a delegate.

    Returns:
        The groups, and the indices of nodes in components that compute nothing.
    """
    left: list[int] = []
    kept = list(supported)
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
