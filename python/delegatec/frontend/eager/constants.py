# SPDX-License-Identifier: Apache-2.0
"""The constants of a program that its results depend on."""

from __future__ import annotations

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node


def constants_read(program: ExportedProgram) -> list[torch.Tensor]:
    """Returns the constants, also those that a program writes to, that its results or its state depend on."""
    live: set[Node] = set()
    pending = [node for node in program.graph.nodes if node.op == "output" or _writes(node)]
    while pending:
        node = pending.pop()
        if node not in live:
            live.add(node)
            pending += node.all_input_nodes
    names = {node.name for node in live}
    return [
        value
        for spec in program.graph_signature.input_specs
        if spec.arg.name in names and spec.target is not None
        if isinstance(value := program.constants.get(spec.target), torch.Tensor)
    ]


def _writes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable
