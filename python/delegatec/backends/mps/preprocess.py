# SPDX-License-Identifier: Apache-2.0
"""From a partition to a blob."""

from __future__ import annotations

import operator

from delegatec.backends.mps.compile_spec import Int4, Precision
from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.table import ROWS
from delegatec.delegation.backend import PreprocessResult
from delegatec.delegation.view import PartitionView
from delegatec.diagnostics import DelegatecError


def preprocess(view: PartitionView, precision: Precision, int4: Int4 = Int4.INT8) -> PreprocessResult:
    """Compiles a partition that the partitioner made.

    Args:
        view: the partition.
        precision: what float32 values are computed in.
        int4: how weights of four bits are stored.

    Raises:
        DelegatecError: DC406, once for each constant that float16 cannot hold.
    """
    builder = GraphBuilder(view, precision, int4)
    for node in view.inputs:
        builder.input(node)
    builder.convert_inputs()
    for node in view.nodes:
        if node.target is not operator.getitem:
            builder.current = node
            ROWS[node.target].lower(builder, node)
    builder.current = None
    for node in view.outputs:
        builder.output(node)
    if builder.problems:
        raise DelegatecError(builder.problems)
    return PreprocessResult(
        builder.blob(), builder.debug_map.get_delegate_mapping(), constant_names=builder.constant_names
    )
