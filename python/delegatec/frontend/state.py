# SPDX-License-Identifier: Apache-2.0
"""State that a module keeps outside of its buffers."""

from __future__ import annotations

from collections.abc import Iterator

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx import Node

from delegatec.edge.functionalize import storage_roots


def adopt_state(program: ExportedProgram) -> None:
    """Makes buffers of the constants that a program writes to.

    A tensor in a plain attribute, or in an object such as a cache of keys and values, is a constant to
    torch.export, even where the module writes to it. What it holds has to last until the next call, as it
    does in eager.
    """
    roots = storage_roots(program.graph)
    written = {roots[operand].name for node in program.graph.nodes for operand in _written(node)}
    specs = program.graph_signature.input_specs
    for index, spec in enumerate(specs):
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in written:
            specs[index] = InputSpec(InputKind.BUFFER, spec.arg, spec.target, persistent=False)


def _written(node: Node) -> Iterator[Node]:
    """The operands that a call writes to."""
    if not isinstance(node.target, OpOverload):
        return
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            operand = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            if isinstance(operand, Node):
                yield operand
