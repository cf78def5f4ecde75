# SPDX-License-Identifier: Apache-2.0
"""State that a module keeps outside of its buffers."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from delegatec.edge.functionalize import storage_roots
from delegatec.edge.state import written_operands


def adopt_state(program: ExportedProgram) -> None:
    """Makes buffers of the constants that a program writes to.

    A tensor in a plain attribute, or in an object such as a cache of keys and values, is a constant to
    torch.export, even where the module writes to it. What it holds has to last until the next call, as it
    does in eager.
    """
    roots = storage_roots(program.graph)
    written = {roots[operand].name for node in program.graph.nodes for operand in written_operands(node)}
    specs = program.graph_signature.input_specs
    for index, spec in enumerate(specs):
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in written:
            specs[index] = InputSpec(InputKind.BUFFER, spec.arg, spec.target, persistent=False)
