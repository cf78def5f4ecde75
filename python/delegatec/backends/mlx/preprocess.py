# SPDX-License-Identifier: Apache-2.0
"""Compiler from a partition to a blob."""

from __future__ import annotations

from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.compile_spec import Settings
from delegatec.backends.mlx.operators.table import TABLE
from delegatec.delegation.protocol.backend import PreprocessResult
from delegatec.delegation.protocol.view import PartitionView
from delegatec.edge.program import EdgeProgram


def preprocess(view: PartitionView, settings: Settings) -> PreprocessResult:
    """Compiles a partition.

    Args:
        view: the partition, a complete private program.
        settings: the user's settings.

    Raises:
        DelegatecError: DC406 for each constant that is out of float16's range.
    """
    builder = GraphBuilder(view, settings, TABLE.lower)
    for node in view.inputs:
        builder.input(node)
    state = _state(view.program)
    for buffer in state:
        builder.buffer(buffer)
    TABLE.lower(builder, view.nodes)
    for node in view.outputs:
        builder.output(node)
    for buffer, new in state.items():
        builder.store(buffer, new)
    return builder.finished()


def _state(program: EdgeProgram) -> dict[Node, Node]:
    """Returns the placeholder of each buffer that a private program writes to, and its new value."""
    written = program.mutated_inputs()
    return {node: written[node.name] for node in program.placeholders() if node.name in written}
