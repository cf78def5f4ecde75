# SPDX-License-Identifier: Apache-2.0
"""Compiler from a partition to a blob."""

from __future__ import annotations

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.unused_inputs import use_all_inputs
from delegatec.backends.mps.compile_spec import Settings
from delegatec.backends.mps.operators.table import TABLE
from delegatec.delegation.protocol.backend import PreprocessResult
from delegatec.delegation.protocol.view import PartitionView


def preprocess(view: PartitionView, settings: Settings) -> PreprocessResult:
    """Compiles a partition.

    Args:
        view: the partition.
        settings: the user's settings.

    Raises:
        DelegatecError: DC406 for each constant that is out of float16's range.
    """
    builder = GraphBuilder(view, settings)
    for node in view.inputs:
        builder.input(node)
    TABLE.lower(builder, view.nodes)
    use_all_inputs(builder, view.outputs)
    for node in view.outputs:
        builder.output(node)
    return builder.finished()
