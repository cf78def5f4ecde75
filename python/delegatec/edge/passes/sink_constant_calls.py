# SPDX-License-Identifier: Apache-2.0
"""Moves calls on constants alone, such as dequantization of weights, directly before their first use."""

from __future__ import annotations

import torch
from torch.fx import Node

from delegatec.edge.arguments import bytes_of
from delegatec.edge.program import EdgeProgram


def sink_constant_calls(program: EdgeProgram) -> None:
    """Moves calls whose operands are constants, or results of such calls, before the first use of the result.

    PT2E dequantizes all weights at the start, where all of them would be in memory at the same time. A call
    whose result is smaller than a computed operand stays, since it ends the lifetime of the larger one.
    """
    fixed = set(program.fixed_constants())
    constants = [node for node in program.graph.find_nodes(op="placeholder") if node.name in fixed]
    users = (user for node in constants for user in node.users)
    if not any(all(each.name in fixed for each in user.all_input_nodes) for user in users):
        return
    nodes = list(program.graph.nodes)
    derived: set[Node] = set()
    for node in nodes:
        operands = node.all_input_nodes
        if node.op != "call_function" or not operands or "val" not in node.meta:
            continue
        if all(operand in derived or operand.name in fixed for operand in operands):
            largest = max((_bytes(operand) for operand in operands if operand in derived), default=0)
            if _bytes(node) >= largest > -1:
                derived.add(node)
    position = {node: index for index, node in enumerate(nodes)}
    before: dict[int, list[Node]] = {}
    for node in reversed(nodes):
        if node in derived and node.users:
            first = min(position[user] for user in node.users)
            position[node] = first
            before.setdefault(first, []).append(node)
    for first, moved in before.items():
        anchor = nodes[first]
        for node in reversed(moved):
            anchor.prepend(node)


def _bytes(node: Node) -> int:
    """Returns the size of a tensor; -1 of others, and of dynamic ones."""
    val = node.meta.get("val")
    size = bytes_of(val) if isinstance(val, torch.Tensor) else None
    return size if isinstance(size, int) else -1
