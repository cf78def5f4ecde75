# SPDX-License-Identifier: Apache-2.0
"""Partitioners: what a backend takes of a program, and why not the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeGuard, runtime_checkable

from torch.fx import Node

from delegatec.delegation.protocol.compile_spec import CompileSpec
from delegatec.edge.program import EdgeProgram


@dataclass(frozen=True)
class DelegationSpec:
    """Who compiles a group, and with which settings.

    Attributes:
        backend_id: the id under which the runtime knows the backend, such as "MPSBackend".
        compile_specs: settings for `Backend.preprocess`, stored in the program as well.
    """

    backend_id: str
    compile_specs: tuple[CompileSpec, ...] = ()


@dataclass(frozen=True)
class Rejection:
    """Why one node stays outside of every group.

    Attributes:
        node: the node.
        rule: stable short id of the rule that it broke, such as "operator", "dtype", "rank". "trivial" is for
            nodes that the backend could run, and that are not worth a delegate of their own.
        message: what broke it, with the offending value.
        help: what would make the backend take it; empty if nothing would.
    """

    node: Node
    rule: str
    message: str
    help: str = ""


@dataclass
class Partitioning:
    """What a partitioner decided.

    Attributes:
        delegation: who compiles the groups.
        groups: sets of nodes, each becoming one delegate. No node is in two groups, the nodes of one are in
            the order of the graph, and contracting every group to one node leaves the graph acyclic.
        rejections: one for each `call_function` node that computes and is in no group.
    """

    delegation: DelegationSpec
    groups: list[list[Node]] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)


@runtime_checkable
class Partitioner(Protocol):
    """Decides what of a program goes to a backend. It reads the program and never edits it.

    What it may have besides is in `delegation.protocol.capabilities`.
    """

    def partition(self, program: EdgeProgram) -> Partitioning:
        """Groups the nodes that the backend takes.

        Args:
            program: the program; not to be edited (`to_backend` checks).
        """
        ...


def is_partitioner(value: object) -> TypeGuard[Partitioner]:
    """Returns whether a value is a partitioner. Strings have a method `partition`, too."""
    return isinstance(value, Partitioner) and not isinstance(value, str)
