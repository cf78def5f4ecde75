# SPDX-License-Identifier: Apache-2.0
"""Checks of the results of partitioners and backends."""

from __future__ import annotations

import operator

from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.delegation.faults import attribute_errors
from delegatec.delegation.partitioning.ruled_partitioner import RuledPartitioner
from delegatec.delegation.partitioning.snapshot import Snapshot
from delegatec.delegation.protocol.partitioner import DelegationSpec, Partitioner, Partitioning, Rejection
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.edge.control_flow import FORMS, body_nodes
from delegatec.edge.program import EdgeProgram


def query(partitioner: Partitioner, program: EdgeProgram) -> Partitioning:
    """Calls a partitioner and checks the result; see `checked_partition`.

    Raises:
        DelegatecError: DC404; DC410 for a plug-in that raises.
    """
    plugin = innermost_partitioner(partitioner)
    with attribute_errors(plugin, f"partitioner {type(plugin).__qualname__}"):
        return checked_partition(partitioner, program)


def checked_partition(partitioner: Partitioner, program: EdgeProgram) -> Partitioning:
    """Calls a partitioner, and checks that it does not edit the program.

    Raises:
        DelegatecError: DC404 if it edited the program, or its groups are not sets of nodes of the program.
    """
    before = Snapshot(program)
    partitioning = partitioner.partition(program)
    if not isinstance(partitioning, Partitioning):
        raise bad_partitioner(
            partitioner,
            f"partition() returned a {type(partitioning).__name__}",
            "partition() returns a delegatec.delegation.Partitioning",
        )
    if before.differs():
        raise bad_partitioner(
            partitioner, "it edited the program", "only group nodes, and edit them in passes"
        )
    members = [node for group in partitioning.groups for node in group]
    if len(set(members)) != len(members) or any(
        node.op != "call_function" or node.graph is not program.graph for node in members
    ):
        raise bad_partitioner(
            partitioner,
            "a node is in two groups, or is not an operator in the program",
            "groups are disjoint sets of call_function nodes",
        )
    if not isinstance(partitioning.delegation, DelegationSpec) or any(
        not isinstance(reason, Rejection) or reason.node.graph is not program.graph
        for reason in partitioning.rejections
    ):
        raise bad_partitioner(
            partitioner,
            "its delegation is not a DelegationSpec, or a rejection not a Rejection of one of its nodes",
            "see delegatec.delegation.Partitioning",
        )
    owner = {node: index for index, group in enumerate(partitioning.groups) for node in group}
    operators = partitioner.control_flow
    for node in members:
        results = [each for each in (node, *node.users) if each.target is operator.getitem]
        if any(owner.get(result) != owner.get(result.all_input_nodes[0]) for result in results):
            raise bad_partitioner(
                partitioner,
                f"it separated {node.name} from a getitem of its results",
                "put a node with several results into one group with all getitem nodes that read them",
            )
        is_control_flow = node.target in FORMS and node.target in operators
        if not is_control_flow and any(source.op == "get_attr" for source in node.all_input_nodes):
            raise bad_partitioner(
                partitioner,
                f"a group contains {node.name}, which calls a body of control flow or a delegate",
                "reject it: bodies are partitioned separately, unless the partitioner has `control_flow`",
            )
        if is_control_flow and any(each.target is call_delegate for each in body_nodes(program, node)):
            raise bad_partitioner(
                partitioner, f"a group contains {node.name}, whose body calls a delegate", "reject it"
            )
    return partitioning


def bad_partitioner(partitioner: Partitioner, message: str, help: str) -> DelegatecError:
    """Returns the error for a partitioner that violates the protocol."""
    name = type(innermost_partitioner(partitioner)).__qualname__
    return DelegatecError([Diagnostic(code="DC404", message=f"partitioner {name}: {message}", help=help)])


def innermost_partitioner(partitioner: Partitioner) -> Partitioner:
    """Returns the backend's partitioner inside a ruled one; any other unchanged."""
    return partitioner.inner if isinstance(partitioner, RuledPartitioner) else partitioner
