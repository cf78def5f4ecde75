# SPDX-License-Identifier: Apache-2.0
"""Moves calls on constants alone, such as dequantization of weights, out of the bodies of loops."""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.builder import Builder
from delegatec.edge.control_flow import COND, FORMS, bodies_of, calls, group
from delegatec.edge.functionalize import is_view_or_copy
from delegatec.edge.program import EdgeProgram


def hoist_constant_calls(program: EdgeProgram) -> None:
    """Computes what each iteration of a loop would compute from constants before the loop.

    Views stay, since they cost nothing, and so do branches, of which one does not run.

    Args:
        program: edited in place, bodies included; after delegation.
    """
    for body in program.bodies.values():
        hoist_constant_calls(body)
    for call in calls(program):
        if call.target is not COND:
            for body in bodies_of(program, call):
                _hoist(program, call, body)


def _hoist(program: EdgeProgram, call: Node, body: EdgeProgram) -> None:
    moved = _derived(body)
    used = [node for node in moved if any(user not in moved for user in node.users)]
    # A view is computed in the body, from what is computed before.
    read: dict[Node, None] = {}
    for node in used:
        while _is_view(node):
            (node,) = node.all_input_nodes
        if node.op == "call_function":
            read[node] = None
    if not read:
        return
    b = Builder(program).at(call)
    values: dict[Node, Any] = {}
    for node in _with_operands(list(read), moved):
        values[node] = b.copy(node, lambda each: _outer(b, body, values, each))
    for node in read:
        node.replace_all_uses_with(_passed(program, call, body, node, values[node]))
    for node in reversed(moved):
        if not node.users:
            body.graph.erase_node(node)
    body.erase_unused_placeholders()


def _derived(body: EdgeProgram) -> dict[Node, None]:
    """Returns the calls that follow from constants of a body, in order."""
    fixed = body.fixed_constants()
    found: dict[Node, None] = {}
    for node in body.graph.nodes:
        operands = node.all_input_nodes
        if operands and _is_pure(node) and all(each in found or each.name in fixed for each in operands):
            found[node] = None
    return found


def _is_pure(node: Node) -> bool:
    return (
        isinstance(node.target, OpOverload)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and not node.target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in node.target.tags
    )


def _is_view(node: Node) -> bool:
    return node.op == "call_function" and is_view_or_copy(node) and len(node.all_input_nodes) == 1


def _with_operands(nodes: list[Node], moved: dict[Node, None]) -> list[Node]:
    """Returns nodes and the calls that they follow from, in the order of the graph."""
    needed, waiting = set[Node](), nodes
    while waiting:
        node = waiting.pop()
        if node in moved and node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    return [node for node in moved if node in needed]


def _outer(b: Builder, body: EdgeProgram, values: dict[Node, Any], node: Node) -> Node:
    """Returns the node of the program for a constant of the body, or for a call that is computed before."""
    if node not in values:
        value = body.constants[node.name]
        held = [each for each in b.program.placeholders() if b.program.constants.get(each.name) is value]
        values[node] = held[0] if held else b.stored(node, body)
    found: Node = values[node]
    return found


def _passed(program: EdgeProgram, call: Node, body: EdgeProgram, node: Node, value: Node) -> Node:
    """Passes a value to a body as another operand of the call; returns the body's input."""
    position = FORMS[call.target].free
    call.update_arg(position, [*group(call, position), value])
    for each in bodies_of(program, call):
        with each.graph.inserting_after(each.placeholders()[-1]):
            added = each.graph.placeholder(f"hoisted_{value.name}")
        added.meta = {**node.meta, "val": value.meta["val"]}
        each.input_specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(added.name), None))
        if each is body:
            found = added
    return found
