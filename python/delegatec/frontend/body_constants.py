# SPDX-License-Identifier: Apache-2.0
"""Lifting of tensors that user code creates in bodies of control flow to constants of the exported program.

torch.export leaves them as attributes of the body's graph, which its own format cannot store. Like constants
created outside bodies, they become constants of the program, and operands of the enclosing calls.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx import GraphModule, Node

from delegatec.edge.control_flow import FORMS


def lift_body_constants(program: ExportedProgram) -> None:
    """Lifts tensors in the bodies of a program's calls to constants of the program, in place."""
    graph_module = program.graph_module
    for call in _calls(graph_module):
        _lift(graph_module, call)
    specs = program.graph_signature.input_specs
    for attribute in _tensors(graph_module):
        value = getattr(graph_module, str(attribute.target))
        name = next(n for number in count() if (n := f"lifted_tensor_{number}") not in program.constants)
        kinds = [spec.kind for spec in specs]
        position = kinds.index(InputKind.USER_INPUT) if InputKind.USER_INPUT in kinds else len(kinds)
        constant = _placeholder(graph_module, position, f"c_{name}", attribute)
        attribute.replace_all_uses_with(constant)
        graph_module.graph.erase_node(attribute)
        delattr(graph_module, str(attribute.target))
        program.constants[name] = value
        specs.insert(position, InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), name))
    graph_module.recompile()


def _calls(module: GraphModule) -> list[Node]:
    return [node for node in module.graph.nodes if node.target in FORMS]


def _tensors(module: GraphModule) -> list[Node]:
    """Returns a node for each tensor of a module that its graph refers to; other references become it."""
    found: dict[str, Node] = {}
    for node in module.graph.find_nodes(op="get_attr"):
        if not isinstance(getattr(module, node.target), torch.Tensor):
            continue
        first = found.setdefault(node.target, node)
        if first is not node:
            node.replace_all_uses_with(first)
            module.graph.erase_node(node)
    return list(found.values())


def _lift(owner: GraphModule, call: Node) -> None:
    """Lifts the tensors in the bodies of a call to its owner, which passes them to the call."""
    form = FORMS[call.target]
    bodies = [getattr(owner, str(attribute.target)) for attribute in map(call.args.__getitem__, form.bodies)]  # type: ignore[union-attr]
    for body in bodies:
        for inner in _calls(body):
            _lift(body, inner)
    for number, body in enumerate(bodies):
        for attribute in _tensors(body):
            _pass_to_bodies(owner, call, bodies, number, attribute)
        body.recompile()


def _pass_to_bodies(
    owner: GraphModule, call: Node, bodies: list[GraphModule], number: int, attribute: Node
) -> None:
    """Passes a tensor of one body as an operand of the call; the other bodies ignore it."""
    target = str(attribute.target)
    name = next(n for i in count() if not hasattr(owner, n := f"_tensor_constant{i}"))
    setattr(owner, name, getattr(bodies[number], target))
    with owner.graph.inserting_before(call):
        operand = owner.graph.create_node("get_attr", name)
    operand.meta = {key: value for key, value in call.meta.items() if key != "val"}
    operand.meta["val"] = attribute.meta["val"]
    free = FORMS[call.target].free
    args: list[Any] = list(call.args)
    args += [()] * (free + 1 - len(args))
    args[free] = type(args[free])((*args[free], operand))
    call.args = tuple(args)
    for body in bodies:
        position = len(body.graph.find_nodes(op="placeholder"))
        placeholder = _placeholder(body, position, f"{name}_operand", attribute)
        if body is bodies[number]:
            attribute.replace_all_uses_with(placeholder)
    bodies[number].graph.erase_node(attribute)
    delattr(bodies[number], target)


def _placeholder(module: GraphModule, position: int, name: str, like: Node) -> Node:
    """Adds a placeholder to a graph at a position among its inputs, for a tensor like a node's."""
    inputs = module.graph.find_nodes(op="placeholder")
    rest = inputs[position:] or [node for node in module.graph.nodes if node.op != "placeholder"]
    with module.graph.inserting_before(rest[0]):
        placeholder = module.graph.placeholder(name)
    placeholder.meta = {"val": like.meta["val"]}
    return placeholder
