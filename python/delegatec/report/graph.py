# SPDX-License-Identifier: Apache-2.0
"""The graph of a method after delegation, for the manifest."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from torch.export.graph_signature import InputKind
from torch.fx import Node

from delegatec.delegation import call_delegate
from delegatec.delegation.delegates.operators import operator_name
from delegatec.diagnostics import SourceLocation
from delegatec.edge.control_flow import FORMS, operands
from delegatec.edge.program import EdgeProgram
from delegatec.report.methods import GraphNode, Location


def operator_graph(program: EdgeProgram, delegates: Mapping[str, int]) -> tuple[GraphNode, ...]:
    """Returns the operators and delegates of a program in order, without `getitem` and constants.

    Nodes in bodies of control flow precede the call, which reads the results of its bodies; operands of a
    body are those of the call. Their names are prefixed with that of the body.

    Args:
        program: the program after delegation.
        delegates: name of the `get_attr` node -> number of the delegate.
    """
    graph = _OperatorGraph(program, delegates)
    graph.add(program, "")
    return tuple(graph.nodes)


class _OperatorGraph:
    """The nodes so far."""

    def __init__(self, program: EdgeProgram, delegates: Mapping[str, int]) -> None:
        self.nodes: list[GraphNode] = []
        self._delegates = delegates
        self._indices: dict[Node, int] = {}
        # input of a body -> operand of its call
        self._operands: dict[Node, Node] = {}
        self._inputs = {
            node
            for node, spec in zip(program.placeholders(), program.input_specs, strict=True)
            if spec.kind is InputKind.USER_INPUT
        }
        self._returned = {self._origin(node) for node in program.output_node().all_input_nodes}

    def add(self, program: EdgeProgram, prefix: str) -> None:
        """Adds the nodes of a program, or of a body with known operands."""
        for node in program.graph.nodes:
            if node.op != "call_function" or node.target is operator.getitem:
                continue
            read = list(node.all_input_nodes)
            if node.target in FORMS:
                read += self._add_bodies(program, node, prefix)
            sources = list(dict.fromkeys(map(self._origin, read)))
            delegate = _delegate_of(node, self._delegates)
            self._indices[node] = len(self.nodes)
            self.nodes.append(
                GraphNode(
                    name=prefix + node.name,
                    operator=_name(node, delegate, program),
                    delegate=delegate,
                    inputs=tuple(self._indices[source] for source in sources if source in self._indices),
                    reads_input=any(source in self._inputs for source in sources),
                    is_output=node in self._returned,
                    location=location_of(node),
                )
            )

    def _add_bodies(self, program: EdgeProgram, call: Node, prefix: str) -> list[Node]:
        """Adds the bodies of a call, and returns the nodes that they return."""
        returned: list[Node] = []
        for attribute in call.all_input_nodes:
            if attribute.name not in program.bodies:
                continue
            body = program.bodies[attribute.name]
            for node, operand in zip(body.user_inputs(), operands(call), strict=True):
                if isinstance(operand, Node):
                    self._operands[node] = operand
            self.add(body, f"{prefix}{attribute.name}.")
            returned += body.output_node().all_input_nodes
        return returned

    def _origin(self, node: Node) -> Node:
        """Resolves a `getitem`, or an input of a body, to its node."""
        while True:
            if node in self._operands:
                node = self._operands[node]
            elif node.op == "call_function" and node.target is operator.getitem:
                source = node.args[0]
                assert isinstance(source, Node)
                node = source
            else:
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


def location_of(node: Node) -> Location | None:
    """Returns the user's line of a node, if it is known."""
    source = node.meta.get("source")
    if not isinstance(source, SourceLocation):
        return None
    return Location(source.file, source.line, source.function, source.text)
