# SPDX-License-Identifier: Apache-2.0
"""Units: the calls that floating-point values connect, from dequantization to quantization.

Integers separate units: whether one can be converted does not depend on others.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.arm.integer.parameters import DEQUANTIZE
from delegatec.edge.arguments import tensors
from delegatec.edge.program import EdgeProgram


@dataclass(eq=False)
class Unit:
    """The calls of one unit.

    Attributes:
        nodes: in the order of the graph.
        inputs: operands of floating point from outside.
        outputs: floating-point results of the program.
    """

    nodes: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)

    @property
    def is_quantized(self) -> bool:
        """Whether it dequantizes values."""
        return any(node.target in DEQUANTIZE for node in self.nodes)

    @property
    def is_closed(self) -> bool:
        """Whether all operands and results are integers, or constants."""
        return not self.inputs and not self.outputs


def units_of(program: EdgeProgram) -> dict[Node, Unit]:
    """Returns the unit of each call that has floating-point operands or results."""
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    nodes = [node for node in program.graph.nodes if _is_member(node)]
    borders: list[tuple[Node, Node]] = []
    for node in nodes:
        if is_float(node):
            parent.setdefault(node, node)
        for source in node.all_input_nodes:
            if not is_float(source):
                continue
            parent.setdefault(node, node)
            if _is_member(source):
                parent.setdefault(source, source)
                parent[root(source)] = root(node)
            elif source.name not in program.constants:
                borders.append((node, source))
    units: dict[Node, Unit] = {}
    found: dict[Node, Unit] = {}
    for node in nodes:
        if node in parent:
            found[node] = units.setdefault(root(node), Unit())
            found[node].nodes.append(node)
    for node, source in borders:
        found[node].inputs.append(source)
    results = {*program.results()}
    for node, unit in found.items():
        if is_float(node) and (node in results or not all(user in found for user in node.users)):
            unit.outputs.append(node)
    return found


def _is_member(node: Node) -> bool:
    """Whether a call computes, rather than run a body or a delegate."""
    target = node.target
    if target is operator.getitem:
        return _is_member(node.all_input_nodes[0])
    return node.op == "call_function" and isinstance(target, OpOverload)


def is_float(node: Node) -> bool:
    """Whether a value is of floating point, or has such a part."""
    return any(each.dtype.is_floating_point for each in tensors(node.meta.get("val")))


def crossing(nodes: Sequence[Node]) -> list[Node]:
    """Returns the nodes of a partition with floating-point operands or results outside of it."""
    members = {*nodes}

    def crosses(node: Node) -> bool:
        outside = [
            each for each in node.all_input_nodes if each not in members and each.op == "call_function"
        ]
        return any(map(is_float, outside)) or (
            is_float(node) and any(user not in members for user in node.users)
        )

    return [node for node in nodes if crosses(node)]
