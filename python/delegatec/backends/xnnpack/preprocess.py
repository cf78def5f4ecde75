# SPDX-License-Identifier: Apache-2.0
"""Compiler from a partition to a blob."""

from __future__ import annotations

from dataclasses import replace

from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.compile_spec import Settings
from delegatec.backends.xnnpack.operators.table import TABLE
from delegatec.backends.xnnpack.quantized.left_in_float import left_in_float
from delegatec.backends.xnnpack.quantized.weights import is_weight
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
    builder = QuantizedBuilder(view, settings)
    for node in view.inputs:
        builder.input(node)
    nodes = [node for node in view.nodes if not is_weight(node, builder.constant_value)]
    TABLE.lower(builder, nodes)
    for node in view.outputs:
        builder.output(node)
    return replace(builder.finished(), notes=list(left_in_float(view.nodes, builder.plan)))
