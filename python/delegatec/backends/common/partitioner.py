# SPDX-License-Identifier: Apache-2.0
"""The partitioner of backends with an operator table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from torch.fx import Node

from delegatec.backends.common.legality import Legality, Prepare, TableTarget
from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.delegation.grouping import connected_components, constant_calls, convex_groups
from delegatec.delegation.protocol.partitioner import (
    DelegationSpec,
    Partitioner,
    Partitioning,
    Rejection,
    in_body,
    with_results,
)
from delegatec.edge.control_flow import FORMS, SCAN, bodies_of
from delegatec.edge.passes.lower_ranks import lower_ranks
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.passes.unroll_scans import unroll_quantized_scans
from delegatec.edge.program import EdgeProgram
from delegatec.edge.symbols import is_scalar

SettingsT = TypeVar("SettingsT")


class TablePartitioner(Partitioner, Generic[SettingsT]):
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

    @property
    def most_rank(self) -> int | None:
        """The maximum rank that the backend supports; None if programs never exceed it."""
        return None

    @property
    def most_copied(self) -> int | None:
        """See `unroll_quantized_scans`."""
        return None

    @property
    def preparation(self) -> Sequence[Pass]:
        """See `Partitioner.preparation`. The rank of values that exceed it is reduced."""
        unroll = partial(unroll_quantized_scans, most_copied=self.most_copied)
        return (
            *(() if SCAN in self.control_flow else (unroll,)),
            *(() if self.most_rank is None else (partial(lower_ranks, most=self.most_rank),)),
        )

    @property
    def control_flow(self) -> Collection[Any]:
        """See `Partitioner.control_flow`."""
        return self._target.control_flow

    def partition(self, program: EdgeProgram) -> Partitioning:
        """See `Partitioner.partition`. Connected components that only move data are not worth a call."""
        nodes = [node for node in program.graph.nodes if node.op == "call_function"]
        index = {node: position for position, node in enumerate(nodes)}
        predecessors = [[index[s] for s in node.all_input_nodes if s in index] for node in nodes]
        legality = self.legality(program)
        rejections: list[Rejection] = []
        supported: list[bool] = []
        for node, sources in zip(nodes, predecessors, strict=True):
            if node.target is operator.getitem:
                supported.append(all(supported[source] for source in sources))
                continue
            rejection = self.rejection(program, node, legality)
            supported.append(rejection is None)
            if rejection is not None and node.target is not call_delegate and not is_scalar(node):
                rejections.append(rejection)
        groups, dropped = worthwhile_groups(
            nodes,
            predecessors,
            supported,
            lambda part: self._reasons(program, part),
            self.movable(program, nodes),
        )
        rejections += [each for each in dropped if each.node.target is not operator.getitem]
        rejections.sort(key=lambda rejection: index[rejection.node])
        return Partitioning(
            self._delegation,
            [[nodes[i] for i in group] for group in groups],
            rejections,
            computes_sizes=True,
        )

    def _reasons(self, program: EdgeProgram, part: Sequence[Node]) -> list[Rejection]:
        if self.is_worthwhile(part):
            return with_results(self.misplaced(program, part))
        message = "it is part of a group that only moves data, which is not worth the call of a delegate"
        return [Rejection(node, "trivial", message) for node in part]

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """Whether any of the nodes does more than moving data."""
        return self._target.computes(nodes)

    def legality(self, program: EdgeProgram) -> Legality[SettingsT]:
        """Returns what determines which calls of a program are supported."""
        return Legality(self._target, self._prepare)

    def movable(self, program: EdgeProgram, nodes: Sequence[Node]) -> Collection[int]:
        """Returns the indices of calls that may be in the group of a user, see `grouping.phases`."""
        return constant_calls(nodes, program.fixed_constants())

    def rejection(self, program: EdgeProgram, node: Node, legality: Legality[SettingsT]) -> Rejection | None:
        """Returns why a call is not supported, if it is not."""
        return legality.rejection(program, node) or self._in_bodies(program, node)

    def _in_bodies(self, program: EdgeProgram, call: Node) -> Rejection | None:
        """Returns why a call of control flow is not supported: a call in one of its bodies."""
        bodies = bodies_of(program, call) if call.target in FORMS else ()
        for body in bodies:
            legality = self.legality(body)
            nodes = [node for node in body.graph.nodes if node.op == "call_function"]
            for node in nodes:
                if node.target is not operator.getitem and not is_scalar(node):
                    found = self.rejection(body, node, legality)
                    if found is not None:
                        return in_body(call, found)
            misplaced = self.misplaced(body, nodes)
            if misplaced:
                return in_body(call, misplaced[0])
        return None


def worthwhile_groups(
    nodes: Sequence[Node],
    predecessors: Sequence[Sequence[int]],
    supported: Sequence[bool],
    reasons: Callable[[Sequence[Node]], Sequence[Rejection]],
    movable: Collection[int] = (),
) -> tuple[list[list[int]], list[Rejection]]:
    """Returns convex groups without the connected components against which there is a reason.

    Args:
        nodes: all operator nodes, in topological order.
        predecessors: for each, indices of its operands.
        supported: for each, whether the delegate supports it.
        reasons: returns the reasons against nodes of a connected component.
        movable: nodes that may be in the group of a user, see `phases`.

    Returns:
        The groups, and the reasons.
    """
    index = {node: position for position, node in enumerate(nodes)}
    left: list[Rejection] = []
    kept = list(supported)
    while True:
        groups = convex_groups(predecessors, kept, movable)
        parts = [part for group in groups for part in connected_components(group, predecessors)]
        dropped = [each for part in parts for each in reasons([nodes[i] for i in part])]
        if not dropped:
            return groups, left
        # Without them, groups may merge: a path through them no longer leaves a delegate.
        left += dropped
        for each in dropped:
            kept[index[each.node]] = False
