# SPDX-License-Identifier: Apache-2.0
"""Module state outside buffers."""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from delegatec.edge.functionalize import storage_roots
from delegatec.edge.state import written_operands


def adopt_state(program: ExportedProgram) -> None:
    """Turns constants that a program writes to into buffers.

    torch.export treats a tensor in a plain attribute, or in an object such as a key/value cache, as a
    constant, even if the module writes to it. Its value must persist until the next call, as in eager mode.
    """
    roots = storage_roots(program.graph)
    written = {roots[operand].name for node in program.graph.nodes for operand in written_operands(node)}
    specs = program.graph_signature.input_specs
    for index, spec in enumerate(specs):
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in written:
            specs[index] = InputSpec(InputKind.BUFFER, spec.arg, spec.target, persistent=False)
