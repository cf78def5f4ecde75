# SPDX-License-Identifier: Apache-2.0
"""Dropouts of inference, which return their operand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from delegatec.edge.functionalize import returns_operand

aten = torch.ops.aten


@contextmanager
def without_dropouts(program: ExportedProgram) -> Iterator[None]:
    """Lets calls read the operand of a dropout that returns it, while torch traces the program again.

    They may write to it, and torch's functionalization takes the result of a dropout for a new tensor.

    Args:
        program: as before at the end.
    """
    graphs = [each.graph for each in program.graph_module.modules() if isinstance(each, GraphModule)]
    reads = [
        (node, user)
        for graph in graphs
        for node in graph.find_nodes(op="call_function", target=aten.dropout.default)
        for user in node.users
        if returns_operand(node) and user.op != "output"
    ]
    operands = {node: node.all_input_nodes[0] for node, _ in reads}
    before = {user: (user.args, user.kwargs) for _, user in reads}
    try:
        for node, user in reads:
            source = operands[node]
            while source in operands:
                source = operands[source]
            user.replace_input_with(node, source)
        yield
    finally:
        for user, (args, kwargs) in before.items():
            user.args, user.kwargs = args, kwargs
