# SPDX-License-Identifier: Apache-2.0
"""What the MPS delegate takes of a program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from torch._ops import HigherOrderOperator
from torch.fx import Node

from delegatec.backends.mps.compile_spec import settings_of
from delegatec.backends.mps.operators.table import ROWS, broken_constraint
from delegatec.delegation.call_delegate import call_delegate
from delegatec.delegation.compile_spec import CompileSpec
from delegatec.delegation.grouping import connected_components, convex_groups
from delegatec.delegation.partitioner import DelegationSpec, Partitioning, Rejection
from delegatec.delegation.report import operator_name
from delegatec.edge.program import EdgeProgram


class MpsPartitioner:
    """Takes each node that has a row in the operator table and keeps its constraints.

    Args:
        compile_specs: settings of the backend.
    """

    def __init__(self, compile_specs: Sequence[CompileSpec]) -> None:
        self._spec = DelegationSpec("MPSBackend", tuple(compile_specs))
        self._precision = settings_of(compile_specs).precision

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `Partitioner.partition`. Parts that only move data are left: they are not worth a call."""
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        index = {node: position for position, node in enumerate(nodes)}
        predecessors = [[index[s] for s in node.all_input_nodes if s in index] for node in nodes]
        result = Partitioning(self._spec)
        taken: list[bool] = []
        for node, sources in zip(nodes, predecessors, strict=True):
            if node.target is operator.getitem:
                taken.append(all(taken[source] for source in sources))
                continue
            rejection = self._rejection(node)
            taken.append(rejection is None)
            if rejection is not None:
                result.rejections.append(rejection)
        groups, trivial = worthwhile_groups(nodes, predecessors, taken, self.is_worthwhile)
        result.groups = [[nodes[i] for i in group] for group in groups]
        result.rejections += [
            Rejection(
                nodes[i],
                "trivial",
                "it and what it is connected to only move data, which is not worth the call of a delegate",
            )
            for i in trivial
            if nodes[i].target is not operator.getitem
        ]
        result.rejections = [r for r in result.rejections if r.node.target is not call_delegate]
        result.rejections.sort(key=lambda rejection: index[rejection.node])
        return result

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """Whether any of the nodes computes something."""
        return any(node.target in ROWS and ROWS[node.target].computes for node in nodes)

    def _rejection(self, node: Node) -> Rejection | None:
        row = ROWS.get(node.target)
        if isinstance(node.target, HigherOrderOperator):
            message = f"{operator_name(node)} runs on the CPU; its bodies have delegates of their own"
            return Rejection(node, "operator", message)
        if row is None:
            return Rejection(node, "operator", f"the delegate has no lowering for {operator_name(node)}")
        broken = broken_constraint(row, node, self._precision)
        if broken is None:
            return None
        constraint, message = broken
        return Rejection(node, constraint.rule, f"{message}. {constraint.doc}", constraint.help)


def worthwhile_groups(
    nodes: Sequence[Node],
    predecessors: Sequence[Sequence[int]],
    taken: Sequence[bool],
    is_worthwhile: Callable[[Sequence[Node]], bool],
) -> tuple[list[list[int]], list[int]]:
    """Convex groups without the connected parts in which nothing is computed.

    Args:
        nodes: all operator nodes, in topological order.
        predecessors: for each, indices of those it reads.
        taken: for each, whether the delegate can run it.
        is_worthwhile: whether connected nodes are worth the call of a delegate.

    Returns:
        The groups, and the indices of the nodes that were left because their part computes nothing.
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
        # Without them, what they kept apart may be one group: a path through them no longer leaves a
        # delegate.
        left += dropped
        for i in dropped:
            kept[i] = False
