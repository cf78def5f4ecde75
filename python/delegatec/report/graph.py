# SPDX-License-Identifier: Apache-2.0
"""The graph of a method after delegation, as the manifest has it."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.delegation.report import operator_name
from delegatec.diagnostics import SourceLocation
from delegatec.edge.program import EdgeProgram
from delegatec.report.manifest import GraphNode, Location


def operator_graph(program: EdgeProgram, delegates: Mapping[str, int]) -> tuple[GraphNode, ...]:
    """The operators and delegates of a program, in order; `getitem` and constants are left out.

    Args:
        program: after delegation.
        delegates: name of the `get_attr` node -> number of the delegate.
    """
    inputs = {
        node
        for node, spec in zip(program.placeholders(), program.input_specs, strict=True)
        if spec.kind is InputKind.USER_INPUT
    }
    returned = {_origin(node) for node in program.output_node().all_input_nodes}
    numbers: dict[Node, int] = {}
    nodes: list[GraphNode] = []
    for node in program.graph.nodes:
        if node.op != "call_function" or node.target is operator.getitem:
            continue
        sources = list(dict.fromkeys(map(_origin, node.all_input_nodes)))
        delegate = _delegate_of(node, delegates)
        numbers[node] = len(nodes)
        nodes.append(
            GraphNode(
                name=node.name,
                operator=_name(node, delegate, program),
                delegate=delegate,
                inputs=tuple(numbers[source] for source in sources if source in numbers),
                reads_input=any(source in inputs for source in sources),
                is_output=node in returned,
                location=_location(node),
            )
        )
    return tuple(nodes)


def _origin(node: Node) -> Node:
    """The node whose result a `getitem` takes apart."""
    while node.op == "call_function" and node.target is operator.getitem:
        source = node.args[0]
        assert isinstance(source, Node)
        node = source
    return node


def _delegate_of(node: Node, delegates: Mapping[str, int]) -> int | None:
    if node.target is not call_delegate:
        return None
    attribute = node.args[0]
    assert isinstance(attribute, Node)
    return delegates.get(str(attribute.target))


def _name(node: Node, delegate: int | None, program: EdgeProgram) -> str:
    if delegate is None:
        return operator_name(node)
    attribute = node.args[0]
    assert isinstance(attribute, Node)
    return str(program.graph_module.get_submodule(str(attribute.target)).backend_id)


def _location(node: Node) -> Location | None:
    source = node.meta.get("source")
    if not isinstance(source, SourceLocation):
        return None
    return Location(source.file, source.line, source.function, source.text)
