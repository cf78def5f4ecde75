# SPDX-License-Identifier: Apache-2.0
"""Debug handles: a number for each node of the exported program, which all that comes from the node carries.

Handles count from 1: operators first, in the order of the graph, those of control flow bodies after those of
the graph that calls them; then whatever else there is. A handle so depends on nothing but the exported
program: not on the backend, its settings, or what passes do; and a weight or an input more or less changes no
operator's handle. An operator more or less changes the handles of those behind it, as it changes the
instructions of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Graph, GraphModule, Node


@dataclass(frozen=True)
class Origin:
    """A node of the exported program.

    Attributes:
        node: its name there.
        operator: what it calls, such as "aten.linear.default"; its kind if it calls nothing.
    """

    node: str
    operator: str


def number_nodes(owner: GraphModule) -> dict[int, Origin]:
    """Sets `meta["debug_handle"]` of every node of a graph and of the graphs that it calls.

    Args:
        owner: the exported program's module, before any edit.

    Returns:
        Debug handle -> the node that has it, in order of handles.
    """
    nodes = [node for graph in _graphs(owner) for node in graph.nodes]
    ordered = sorted(nodes, key=lambda node: node.op != "call_function")
    for handle, node in enumerate(ordered, start=1):
        node.meta["debug_handle"] = handle
    return {node.meta["debug_handle"]: _origin(node) for node in ordered}


def handles_by_name(graph: Graph) -> dict[str, int]:
    """Name of each node -> its debug handle."""
    return {node.name: node.meta["debug_handle"] for node in graph.nodes}


def inherit_handles(graph: Graph, origin: dict[str, int], origin_id: int, last: int) -> int:
    """Sets debug handles in a graph that torch traced anew.

    Args:
        graph: the new graph. torch notes in `meta["from_node"]` which nodes each came from.
        origin: name of each node of the graph it was traced from -> its debug handle.
        origin_id: `id` of that graph, by which torch names it.
        last: the last handle so far; what comes from no node gets one of its own after it.

    Returns:
        The last handle that is taken.
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


def written(node: Node, origins: Mapping[int, Origin]) -> str:
    """The operator of a node, after that which the user's code calls where it is another one."""
    origin = origins.get(node.meta.get("debug_handle", 0))
    if origin is None or origin.operator == str(node.target):
        return str(node.target)
    return f"{origin.operator} is decomposed to {node.target}, which"
