# SPDX-License-Identifier: Apache-2.0
"""Partitioners: which nodes of a program a backend supports, and the reasons for the others."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from torch._ops import HigherOrderOperator
from torch.fx import Node

from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.edge.passes.pass_manager import Pass
from delegatec.edge.program import EdgeProgram


@dataclass(frozen=True)
class DelegationSpec:
    """The backend of a partition and its settings.

    Attributes:
        backend_id: the id of the backend in the runtime, such as "MPSBackend".
        compile_specs: settings for `Backend.preprocess`, stored in the program as well.
    """

    backend_id: str
    compile_specs: tuple[CompileSpec, ...] = ()


@dataclass(frozen=True)
class Rejection:
    """The reason why a node is not in a group.

    Attributes:
        node: the node.
        rule: stable short id of the violated rule, such as "operator", "dtype", "rank". "trivial" is for
            supported nodes that are not worth a separate delegate.
        message: the violation, with the offending value.
        help: how to make the backend support it; empty if impossible.
    """

    node: Node
    rule: str
    message: str
    help: str = ""


def with_results(rejections: Sequence[Rejection]) -> list[Rejection]:
    """Adds the results of rejected calls, and the calls of rejected results."""
    found: dict[Node, Rejection] = {}
    for each in rejections:
        call = each.node.all_input_nodes[0] if each.node.target is operator.getitem else each.node
        for node in (call, *(user for user in call.users if user.target is operator.getitem)):
            found.setdefault(node, Rejection(node, each.rule, each.message, each.help))
    return list(found.values())


def in_body(call: Node, reason: Rejection) -> Rejection:
    """Returns the reason for a call of control flow that follows from the reason for a node of its bodies."""
    message = f"{reason.node.name} in its body is not supported: {reason.message}"
    return Rejection(call, reason.rule, message, reason.help)


@dataclass
class Partitioning:
    """The result of a partitioner.

    Attributes:
        delegation: the backend of the groups.
        groups: sets of nodes, each becoming one delegate. No node is in two groups, the nodes of one are in
            the order of the graph, and contracting every group to one node leaves the graph acyclic.
        rejections: one per `call_function` node that computes and is in no group.
        computes_sizes: whether delegates compute the scalars that their nodes use, such as sizes, from the
            shapes of tensors; see `PartitionView`. By default these are inputs.
    """

    delegation: DelegationSpec
    groups: list[list[Node]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    computes_sizes: bool = False


class Partitioner(ABC):
    """Decides which nodes of a program a backend runs. A subclass implements `partition`."""

    @property
    def preparation(self) -> Sequence[Pass]:
        """Passes that rewrite a program and its bodies before partitioning, so that more can be delegated.

        The results do not change.
        """
        return ()

    @property
    def control_flow(self) -> Collection[HigherOrderOperator]:
        """Operators, such as `torch.ops.higher_order.cond`, whose calls groups may contain.

        The delegate runs their bodies as well, which the partitioner has checked. Bodies of others are
        partitioned separately.
        """
        return ()

    @abstractmethod
    def partition(self, program: EdgeProgram) -> Partitioning:
        """Groups the nodes that the backend supports.

        Args:
            program: the program; not to be edited (`to_backend` checks).
        """

    def is_worthwhile(self, nodes: Sequence[Node]) -> bool:
        """Whether connected nodes are worth a call; used when a user's rules split a group."""
        return True

    def misplaced(self, program: EdgeProgram, nodes: Sequence[Node]) -> Sequence[Rejection]:
        """Returns reasons for nodes of a connected group that cannot be in it because another node is not.

        Args:
            program: of the nodes.
            nodes: the group.
        """
        return ()
