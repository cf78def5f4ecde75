# SPDX-License-Identifier: Apache-2.0
"""Quantized regions: calls connected by floating-point values, from dequantization to quantization.

Bool values also connect calls if the target has no bools.

Integers separate regions: whether one can be converted does not depend on others.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import tensors
from delegatec.edge.program import EdgeProgram
from delegatec.edge.quantization.operators import DEQUANTIZING


@dataclass(eq=False)
class Region:
    """The calls of one region.

    Attributes:
        nodes: in the order of the graph.
        inputs: floating-point operands from outside the region.
        outputs: floating-point results of the program.
    """

    nodes: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)

    @property
    def is_quantized(self) -> bool:
        """Whether it dequantizes values, or all of its values are bools."""
        return any(node.target in DEQUANTIZING for node in self.nodes) or not any(map(is_float, self.nodes))


def regions_of(program: EdgeProgram, bools: bool = True) -> dict[Node, Region]:
    """Returns the region of each call that has operands or results that connect regions.

    Args:
        program: the program.
        bools: whether the target has bools.
    """
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    nodes = [node for node in program.graph.nodes if _is_member(node)]
    boundaries: list[tuple[Node, Node]] = []
    for node in nodes:
        if is_value(node, bools):
            parent.setdefault(node, node)
        for source in node.all_input_nodes:
            if not is_value(source, bools):
                continue
            parent.setdefault(node, node)
            if _is_member(source):
                parent.setdefault(source, source)
                parent[root(source)] = root(node)
            elif source.name not in program.constants:
                boundaries.append((node, source))
    regions: dict[Node, Region] = {}
    found: dict[Node, Region] = {}
    for node in nodes:
        if node in parent:
            found[node] = regions.setdefault(root(node), Region())
            found[node].nodes.append(node)
    for node, source in boundaries:
        found[node].inputs.append(source)
    results = {*program.results()}
    for node, region in found.items():
        if is_value(node, bools) and (node in results or not all(user in found for user in node.users)):
            region.outputs.append(node)
    return found


def _is_member(node: Node) -> bool:
    """Whether a call computes, rather than runs a body or a delegate."""
    target = node.target
    if target is operator.getitem:
        return _is_member(node.all_input_nodes[0])
    return node.op == "call_function" and isinstance(target, OpOverload)


def is_float(node: Node) -> bool:
    """Whether a value is floating point, or has a floating-point part."""
    return any(each.dtype.is_floating_point for each in tensors(node.meta.get("val")))


def is_value(node: Node, bools: bool) -> bool:
    """Whether a value connects regions: it is floating point, or bool if the target has no bools."""
    return is_float(node) or (not bools and is_bool(node))


def is_bool(node: Node) -> bool:
    """Whether a value is bool."""
    return any(each.dtype == torch.bool for each in tensors(node.meta.get("val")))


def sources(program: EdgeProgram, regions: Collection[Node]) -> Collection[Node]:
    """Returns integer calls that are computed from constants, and that regions read.

    A mask that is a constant follows from them.

    Args:
        program: the program.
        regions: the calls of its regions.
    """
    made: set[Node] = set()
    for node in program.graph.nodes:
        is_made = _is_member(node) and node not in regions
        if is_made and all(each in made or each.name in program.constants for each in node.all_input_nodes):
            made.add(node)
    found: set[Node] = set()
    for node in reversed(program.graph.nodes):
        if node in made and any(user in regions or user in found for user in node.users):
            found.add(node)
    return found


def crossing(nodes: Sequence[Node], bools: bool = True) -> list[Node]:
    """Returns the nodes of a partition with operands or results outside of it that connect regions.

    Args:
        nodes: of the partition.
        bools: whether the target has bools.
    """
    members = {*nodes}

    def crosses(node: Node) -> bool:
        outside = [
            each for each in node.all_input_nodes if each not in members and each.op == "call_function"
        ]
        return any(is_value(each, bools) for each in outside) or (
            is_value(node, bools) and any(user not in members for user in node.users)
        )

    return [node for node in nodes if crosses(node)]
