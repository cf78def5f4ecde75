# SPDX-License-Identifier: Apache-2.0
"""A backend's partitioner, restricted by a user's rules."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import replace

from torch._ops import HigherOrderOperator
from torch.fx import Node

from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.delegation.delegates.operators import operator_name
from delegatec.delegation.grouping import (
    connected_components,
    constant_calls,
    convex_groups,
    phases,
)
from delegatec.delegation.partitioning.rules import PartitionRules
from delegatec.delegation.protocol.partitioner import (
    Partitioner,
    Partitioning,
    Rejection,
    in_body,
    with_results,
)
from delegatec.edge.control_flow import FORMS, body_nodes
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram


class RuledPartitioner(Partitioner):
    """Assigns the nodes that a partitioner assigns and the rules allow.

    Groups that lose nodes are split, so that every group stays convex; if the partitioner made groups as
    large as possible, the rest is regrouped in the same way.

    Args:
        inner: the partitioner.
        rules: the rules.
    """

    def __init__(self, inner: Partitioner, rules: PartitionRules) -> None:
        self.inner = inner
        self.rules = rules

    @property
    def preparation(self) -> Sequence[Pass]:
        """See `Partitioner.preparation`."""
        return self.inner.preparation

    @property
    def control_flow(self) -> Collection[HigherOrderOperator]:
        """See `Partitioner.control_flow`."""
        return self.inner.control_flow

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `Partitioner.partition`. Rejections by a rule contain the rule, its value, and help."""
        found = self.inner.partition(program)
        if not isinstance(found, Partitioning):
            return found  # to_backend reports the error
        selection = _Selection(program, found, self.inner)
        selection.reject_listed(self.rules)
        selection.reject_small(self.rules.minimum_nodes)
        selection.reject_beyond(self.rules.maximum_delegates)
        if self.rules.all_or_nothing:
            selection.reject_unless_all()
        return selection.partitioning()


class _Selection:
    """The assigned nodes of a graph, their groups, and the rejections of the others."""

    def __init__(
        self,
        program: EdgeProgram,
        found: Partitioning,
        judge: Partitioner,
    ) -> None:
        self._program = program
        self._found = found
        self._judge = judge
        self._nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        self._index = {node: position for position, node in enumerate(self._nodes)}
        self._predecessors = [
            [self._index[source] for source in node.all_input_nodes if source in self._index]
            for node in self._nodes
        ]
        self._movable = constant_calls(self._nodes, program.fixed_constants())
        self._owner = [-1] * len(self._nodes)
        self._groups = [[self._index[node] for node in group] for group in found.groups if group]
        for index, group in enumerate(self._groups):
            for member in group:
                self._owner[member] = index
        assigned = [owner >= 0 for owner in self._owner]
        self._is_maximal = sorted(map(sorted, self._groups)) == sorted(
            convex_groups(self._predecessors, assigned, self._movable)
        )
        self._reasons: dict[int, Rejection] = {}

    def partitioning(self) -> Partitioning:
        """Returns the restricted partitioning."""
        if not self._reasons:
            return self._found
        reasons = [*self._found.rejections, *self._reasons.values()]
        return replace(
            self._found,
            groups=[[self._nodes[member] for member in group] for group in self._groups],
            rejections=sorted(reasons, key=lambda reason: self._index[reason.node]),
        )

    def reject_listed(self, rules: PartitionRules) -> None:
        """Rejects nodes by the lists of operators and modules."""
        for position, node in enumerate(self._nodes):
            if self._owner[position] < 0:
                continue
            if node.target is operator.getitem:
                if any(self._owner[source] < 0 for source in self._predecessors[position]):
                    self._owner[position] = -1
                continue
            reason = rules.rejection(node, self._program.origins) or self._in_bodies(rules, node)
            if reason is not None:
                self._reject([position], reason.rule, reason.message, reason.help)
        if self._reasons:
            self._regroup()
            self._reject_trivial()

    def _in_bodies(self, rules: PartitionRules, call: Node) -> Rejection | None:
        """Returns why the lists reject a call of control flow: a call in one of its bodies."""
        inside = body_nodes(self._program, call) if call.target in FORMS else ()
        calls = (node for node in inside if node.target is not operator.getitem)
        reasons = (rules.rejection(node, self._program.origins) for node in calls)
        found = next((reason for reason in reasons if reason is not None), None)
        return None if found is None else in_body(call, found)

    def reject_small(self, minimum: int) -> None:
        """Rejects groups with too few operators; without them, others may merge."""
        while True:
            small = [group for group in self._groups if self._size(group) < minimum]
            if not small:
                return
            for group in small:
                self._reject(
                    group,
                    "minimum-nodes",
                    f"its delegate would have {_nodes(self._size(group))}, and minimum_nodes is {minimum}",
                    "lower minimum_nodes, or make its neighbors part of the delegate",
                )
            self._regroup()
            self._reject_trivial()

    def reject_beyond(self, maximum: int | None) -> None:
        """Rejects all but the largest groups."""
        if maximum is None:
            return
        ranked = sorted(self._groups, key=lambda group: (-self._size(group), group[0]))
        for group in ranked[maximum:]:
            self._reject(
                group,
                "maximum-delegates",
                f"its delegate would have {_nodes(self._size(group))}, "
                f"and is not among the {maximum} largest",
                "raise maximum_delegates",
            )
        self._groups = [group for group in self._groups if self._owner[group[0]] >= 0]

    def reject_unless_all(self) -> None:
        """Rejects all nodes if one is rejected."""
        left = [
            node
            for node, owner in zip(self._nodes, self._owner, strict=True)
            if owner < 0 and node.target not in (operator.getitem, call_delegate)
        ]
        if not left or not self._groups:
            return
        first = f"{left[0].name} ({operator_name(left[0])})"
        message = f"{_nodes(len(left))} cannot be delegated, such as {first}"
        for group in self._groups:
            self._reject(group, "all-or-nothing", message, "see their reasons, or remove all_or_nothing")
        self._groups = []

    def _reject(self, positions: Sequence[int], rule: str, message: str, help: str) -> None:
        for position in positions:
            self._owner[position] = -1
            node = self._nodes[position]
            if node.target is not operator.getitem:
                self._reasons[position] = Rejection(node, rule, message, help)

    def _reject_trivial(self) -> None:
        """Rejects nodes that the partitioner would not delegate in their current groups."""
        while True:
            parts = [p for group in self._groups for p in connected_components(group, self._predecessors)]
            found = [reason for part in parts for reason in self._against([self._nodes[i] for i in part])]
            if not found:
                return
            for each in found:
                self._reject([self._index[each.node]], each.rule, each.message, each.help)
            self._regroup()

    def _against(self, part: Sequence[Node]) -> Sequence[Rejection]:
        if self._judge.is_worthwhile(part):
            return with_results(self._judge.misplaced(self._program, part))
        message = "too small to be worth a call after rules split its group"
        return [Rejection(node, "trivial", message) for node in part]

    def _regroup(self) -> None:
        """Groups the assigned nodes, each group convex.

        Nodes of one phase and one former group can stay together: within a phase, edges between groups
        existed before, and every path through a rejected node leads to a later phase.
        """
        assigned = [owner >= 0 for owner in self._owner]
        if self._is_maximal:
            self._groups = convex_groups(self._predecessors, assigned, self._movable)
            return
        groups: dict[tuple[int, int], list[int]] = {}
        for member, phase in enumerate(phases(self._predecessors, assigned, self._movable)):
            if assigned[member]:
                groups.setdefault((phase, self._owner[member]), []).append(member)
        self._groups = [groups[key] for key in sorted(groups)]

    def _size(self, group: Sequence[int]) -> int:
        """Returns the number of operators of a group, and of the bodies of its control flow."""
        nodes = [self._nodes[member] for member in group]
        nodes += [each for node in nodes if node.target in FORMS for each in body_nodes(self._program, node)]
        return sum(node.target is not operator.getitem for node in nodes)


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
