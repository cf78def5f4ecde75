# SPDX-License-Identifier: Apache-2.0
"""Operators of a graph: their names and counts, delegates aside."""

from __future__ import annotations

import operator
from collections import Counter

from torch.fx import Node

from delegatec.delegation.delegates.call_delegate import call_delegate
from delegatec.edge.dim_orders import caller_orders, reinterprets
from delegatec.edge.program import EdgeProgram


def operator_name(node: Node) -> str:
    """Returns the name of a node's target, such as "aten.add.Tensor"."""
    return (
        str(node.target)
        if not callable(node.target) or hasattr(node.target, "_schema")
        else node.target.__name__
    )


def operator_counts(nodes: list[Node]) -> dict[str, int]:
    """Counts the nodes per operator, sorted by name."""
    return dict(sorted(Counter(map(operator_name, nodes)).items()))


def operator_nodes(program: EdgeProgram) -> list[Node]:
    """Returns the nodes of a graph that compute or move data, without `getitem` and delegates."""
    orders = caller_orders(program)
    return [
        node
        for node in program.graph.nodes
        if node.op == "call_function"
        and node.target not in (operator.getitem, call_delegate)
        and not reinterprets(node, orders)
    ]
