# SPDX-License-Identifier: Apache-2.0
"""Conversion of bodies of control flow to torch's schema, in which they read only operands.

In an edge program, bodies have separate constants. Here each becomes an additional operand of the call,
of all its bodies, which share operands, and an input of the enclosing graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._export.serde import schema

from delegatec.edge.program import CONSTANT_KINDS, EdgeProgram


@dataclass(frozen=True)
class Constant:
    """A constant in one graph.

    Attributes:
        name: its name in the graph.
        target: its name in the model.
        value: the tensor.
        meta: the tensor's description in the schema.
    """

    name: str
    target: str
    value: torch.Tensor
    meta: schema.TensorMeta


def lift_constants(program: EdgeProgram, graph: schema.Graph) -> dict[int, Constant]:
    """Turns the constants of all bodies into operands of the calls, in place.

    Args:
        program: the program.
        graph: its serialized graph; inputs are unchanged.

    Returns:
        `id` of each tensor that the graph reads, directly or for its calls -> its name in the graph. The
        caller must add inputs for the new ones.

    Raises:
        ValueError: the call has operands other than tensors.
    """
    own = dict(_own(program, graph))
    bodies = {str(node.target): program.bodies[node.name] for node in _body_nodes(program)}
    for call in graph.nodes:
        graphs = [argument.arg.as_graph for argument in call.inputs if argument.arg.type == "as_graph"]
        if not graphs:
            continue
        lifted = [lift_constants(bodies[found.name], found.graph) for found in graphs]
        needed = {key: constant for constants in lifted for key, constant in constants.items()}
        for key, constant in needed.items():
            if key not in own:
                own[key] = _declare(graph, constant)
        for found, constants in zip(graphs, lifted, strict=True):
            _take(found.graph, constants, needed)
        free: Any = call.inputs[-1].arg
        if free.type != "as_tensors":
            raise ValueError(f"control flow with operands other than tensors ({call.name})")
        free.value.extend(schema.TensorArgument(own[key].name) for key in needed)
    return own


def _own(program: EdgeProgram, graph: schema.Graph) -> Iterator[tuple[int, Constant]]:
    for node, spec in zip(program.placeholders(), program.input_specs, strict=True):
        if spec.kind in CONSTANT_KINDS and node.name in program.constants:
            value = program.constants[node.name]
            target = spec.target or node.name
            yield id(value), Constant(node.name, target, value, graph.tensor_values[node.name])


def _body_nodes(program: EdgeProgram) -> Iterator[Any]:
    return (node for node in program.graph.find_nodes(op="get_attr") if node.name in program.bodies)


def _declare(graph: schema.Graph, constant: Constant) -> Constant:
    """Declares a constant of a body in a graph, under an unused name."""
    name = constant.name
    while name in graph.tensor_values:
        name += "_"
    graph.tensor_values[name] = constant.meta
    return Constant(name, constant.target, constant.value, constant.meta)


def _take(graph: schema.Graph, constants: dict[int, Constant], needed: dict[int, Constant]) -> None:
    """Adds inputs to a body: its operands, then the constants of all bodies of the call."""
    names = {constant.name for constant in constants.values()}
    operands = [
        argument
        for argument in graph.inputs
        if argument.type != "as_tensor" or argument.as_tensor.name not in names
    ]
    last = [constants.get(key) or _declare(graph, constant) for key, constant in needed.items()]
    graph.inputs = [*operands, *map(as_input, last)]


def as_input(constant: Constant) -> schema.Argument:
    """Returns the input of a graph for a constant."""
    argument: schema.Argument = schema.Argument.create(as_tensor=schema.TensorArgument(constant.name))  # type: ignore[no-untyped-call]
    return argument
