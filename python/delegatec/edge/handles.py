# SPDX-License-Identifier: Apache-2.0
"""Debug handles: integers for the nodes of the exported program, inherited by all nodes derived from them.

Handles start at 1: operators first, in graph order, with bodies of control flow after the graph that calls
them; then all other nodes. So handles depend only on the exported program, not on the backend, its settings,
or passes, and adding a weight or an input changes no operator's handle. Adding an operator changes the
handles of those after it, like the instructions of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch.fx import Graph, GraphModule, Node

# Kinds of nodes other than calls.
_OTHER_KINDS: Final = frozenset({"get_attr", "output", "placeholder"})


@dataclass(frozen=True)
class Origin:
    """A node of the exported program.

    Attributes:
        node: its name in the exported program.
        operator: its operator, such as "aten.linear.default"; else its node kind.
    """

    node: str
    operator: str

    @property
    def is_call(self) -> bool:
        """Whether the node calls an operator."""
        return self.operator not in _OTHER_KINDS


def assign_handles(owner: GraphModule) -> dict[int, Origin]:
    """Sets `meta["debug_handle"]` of all nodes of a graph and of its bodies.

    Args:
        owner: the exported program's module, before any edit.

    Returns:
        Debug handle -> its node, in order of handles.
    """
    nodes = [node for graph in _graphs(owner) for node in graph.nodes]
    ordered = sorted(nodes, key=lambda node: node.op != "call_function")
    for handle, node in enumerate(ordered, start=1):
        node.meta["debug_handle"] = handle
    return {node.meta["debug_handle"]: _origin(node) for node in ordered}


def handles_by_name(graph: Graph) -> dict[str, int]:
    """Returns node name -> debug handle."""
    return {node.name: node.meta["debug_handle"] for node in graph.nodes}


def inherit_handles(graph: Graph, origin: dict[str, int], origin_id: int, last: int) -> int:
    """Sets debug handles in a graph that torch has retraced.

    Args:
        graph: the new graph, with its origins in `meta["from_node"]`.
        origin: debug handle of each node of the graph it was traced from, by name.
        origin_id: `id` of that graph, by which torch refers to it.
        last: the last handle in use; nodes without an origin get new ones.

    Returns:
        The last handle in use.
    """
    for node in graph.nodes:
        handle = origin.get(node.name) if node.op != "call_function" else _inherited(node, origin, origin_id)
        if handle is None:
            last += 1
            handle = last
        node.meta["debug_handle"] = handle
    return last


def _inherited(node: Node, origin: dict[str, int], origin_id: int) -> int | None:
    sources = list(node.meta.get("from_node") or ())
    while sources:
        source: Any = sources.pop()
        if source.graph_id == origin_id and source.name in origin:
            return origin[source.name]
        sources += source.from_node
    return None


def _origin(node: Node) -> Origin:
    target = node.target
    calls = getattr(target, "__name__", "") if not hasattr(target, "_schema") else ""
    return Origin(node.name, node.op if node.op != "call_function" else calls or str(target))


def _graphs(owner: GraphModule) -> Iterator[Graph]:
    yield owner.graph
    for node in owner.graph.find_nodes(op="get_attr"):
        body = getattr(owner, node.target, None)
        if isinstance(body, GraphModule):
            yield from _graphs(body)


def describe_operator(node: Node, origins: Mapping[int, Origin]) -> str:
    """Returns the operator of a node, with the operator of the user's code if different."""
    origin = origins.get(node.meta.get("debug_handle", 0))
    if origin is None or origin.operator == str(node.target):
        return str(node.target)
    return f"{origin.operator} is decomposed to {node.target}, which"
