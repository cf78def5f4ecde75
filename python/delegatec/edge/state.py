# SPDX-License-Identifier: Apache-2.0
"""State of a model: weights and buffers that one of its methods writes to, and others read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.functionalize import storage_roots
from delegatec.edge.program import EdgeProgram

_MUTATION_OF: Final = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
}


def written_state(programs: Iterable[ExportedProgram]) -> frozenset[str]:
    """Returns fully qualified names of the buffers and parameters that any method of a model writes to.

    A write to a possible view counts.
    """
    written: set[str] = set()
    for exported in programs:
        signature = exported.graph_signature
        written.update(signature.buffers_to_mutate.values())
        written.update(signature.parameters_to_mutate.values())
        roots = storage_roots(exported.graph)
        names = {
            spec.arg.name: spec.target
            for spec in signature.input_specs
            if spec.kind in _MUTATION_OF and spec.target is not None
        }
        for node in exported.graph.nodes:
            for operand in written_operands(node):
                root = roots[operand]
                if root.op == "placeholder" and root.name in names:
                    written.add(names[root.name])
    return frozenset(written)


def keep_state(program: EdgeProgram, state: Collection[str]) -> None:
    """Makes a program return, unchanged, state that other methods write to.

    No pass or backend then treats it as a constant, and it gets memory like any mutable buffer.

    Args:
        program: a functional program.
        state: fully qualified names; unknown ones are ignored.
    """
    mutated = program.mutated_inputs()
    kept = [
        (node, OutputSpec(_MUTATION_OF[spec.kind], TensorArgument(node.name), spec.target))
        for node, spec in zip(program.placeholders(), program.input_specs, strict=True)
        if spec.kind in _MUTATION_OF and spec.target in state and node.name not in mutated and node.users
    ]
    if not kept:
        return
    output = program.output_node()
    results: Any = output.args[0]
    output.args = ((*(node for node, _ in kept), *results),)
    program.output_specs[:0] = [spec for _, spec in kept]


def release(program: EdgeProgram, state: Collection[str]) -> None:
    """Removes new values of state from the outputs of a program.

    Args:
        program: the program.
        state: names of placeholders.
    """
    if not state:
        return
    names = program.names_in_model()
    targets = {names[name] for name in state}
    output = program.output_node()
    results: Any = output.args[0]
    kept = [
        (result, spec)
        for result, spec in zip(results, program.output_specs, strict=True)
        if spec.target not in targets
    ]
    output.args = (tuple(result for result, _ in kept),)
    program.output_specs[:] = [spec for _, spec in kept]


def written_operands(node: Node) -> Iterable[Node]:
    """Returns the operands that a call writes to, including those in lists."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return ()
    if not node.target._schema.is_mutable:
        return ()
    bound = bind(node)
    values = [
        bound.get(argument.name)
        for argument in node.target._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    items = [item for value in values for item in (value if isinstance(value, (list, tuple)) else (value,))]
    return [item for item in items if isinstance(item, Node)]
