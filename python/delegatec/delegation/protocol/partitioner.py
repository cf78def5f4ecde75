# SPDX-License-Identifier: Apache-2.0
"""Partitioners: which nodes of a program a backend supports, and the reasons for the others."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeGuard, runtime_checkable

from torch.fx import Node

from delegatec.delegation.protocol.compile_spec import CompileSpec
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
        computes_sizes: whether delegates compute the numbers that their nodes use, such as sizes, from the
            shapes of tensors; see `PartitionView`. By default these are inputs.
    """

    delegation: DelegationSpec
    groups: list[list[Node]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    computes_sizes: bool = False


@runtime_checkable
class Partitioner(Protocol):
    """Decides which nodes of a program a backend runs. It does not edit the program.

    Optional members are in `delegation.protocol.capabilities`.
    """

    def partition(self, program: EdgeProgram) -> Partitioning:
        """Groups the nodes that the backend supports.

        Args:
            program: the program; not to be edited (`to_backend` checks).
        """
        ...


def is_partitioner(value: object) -> TypeGuard[Partitioner]:
    """Whether a value is a partitioner. Strings have a method `partition`, too."""
    return isinstance(value, Partitioner) and not isinstance(value, str)
