# SPDX-License-Identifier: Apache-2.0
"""From a partition to a blob."""

from __future__ import annotations

from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.unread import read_all_inputs
from delegatec.backends.mps.compile_spec import Settings
from delegatec.backends.mps.operators.table import TABLE
from delegatec.delegation.backend import PreprocessResult
from delegatec.delegation.view import PartitionView


def preprocess(view: PartitionView, settings: Settings) -> PreprocessResult:
    """Compiles a partition that the partitioner made.

    Args:
        view: the partition.
        settings: what the user chose.

    Raises:
        DelegatecError: DC406, once for each constant that float16 cannot hold.
    """
    builder = GraphBuilder(view, settings)
    for node in view.inputs:
        builder.input(node)
    TABLE.lower(builder, view.nodes)
    read_all_inputs(builder, view.outputs)
    for node in view.outputs:
        builder.output(node)
    return builder.finished()
