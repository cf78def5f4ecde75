# SPDX-License-Identifier: Apache-2.0
"""Compiler from a partition to a blob."""

from __future__ import annotations

from delegatec.backends.vulkan.blob import write_blob
from delegatec.backends.vulkan.building.graph_builder import GraphBuilder
from delegatec.backends.vulkan.compile_spec import Settings
from delegatec.backends.vulkan.memory.sharing import share_memory
from delegatec.backends.vulkan.operators.rewrites.avoid_faults import AVOIDED
from delegatec.backends.vulkan.operators.table import TABLE
from delegatec.delegation.protocol.backend import PreprocessResult
from delegatec.delegation.protocol.mapping import debug_map_of
from delegatec.delegation.protocol.view import PartitionView
from delegatec.diagnostics.notes import Note


def preprocess(view: PartitionView, settings: Settings) -> PreprocessResult:
    """Compiles a partition, whose nodes have representations.

    Args:
        view: the partition.
        settings: the user's settings.

    Raises:
        DelegatecError: DC406 for each constant that is beyond float16 or int32.
    """
    builder = GraphBuilder(view, settings)
    for node in view.inputs:
        builder.input(node)
    TABLE.lower(builder, view.nodes)
    for node in view.outputs:
        builder.output(node)
    builder.constants.check()
    share_memory(builder.graph)
    return PreprocessResult(
        write_blob(builder.graph),
        debug_map_of(builder.origins),
        builder.constants.data,
        builder.names,
        notes=[
            Note("avoided-fault", node.meta[AVOIDED], location=node.meta.get("source"))
            for node in view.nodes
            if AVOIDED in node.meta
        ],
    )
