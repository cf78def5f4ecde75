# SPDX-License-Identifier: Apache-2.0
"""Compiler from a partition to a blob."""

from __future__ import annotations

from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.compile_spec import KvCache, Settings
from delegatec.backends.mlx.operators.layers.runtime_cache import runtime_layers
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
        DelegatecError: DC406 for each constant that is out of float16's range; DC426 for each cache that the
            runtime cannot own.
    """
    layers = runtime_layers(view) if settings.kv_cache is KvCache.RUNTIME else {}
    builder = GraphBuilder(view, settings, TABLE.lower, layers)
    for node in view.inputs:
        builder.input(node)
    replaced = {node for layer in layers.values() for node in (*layer.buffers, *layer.replaced)}
    state = {buffer: new for buffer, new in _state(view.program).items() if buffer not in replaced}
    for buffer in state:
        builder.buffer(buffer)
    TABLE.lower(builder, [node for node in view.nodes if node not in replaced])
    for node in view.outputs:
        builder.output(node)
    for buffer, new in state.items():
        builder.store(buffer, new)
    return builder.finished()


def _state(program: EdgeProgram) -> dict[Node, Node]:
    """Returns the placeholder of each buffer that a private program writes to, and its new value."""
    written = program.mutated_inputs()
    return {node: written[node.name] for node in program.placeholders() if node.name in written}
