# SPDX-License-Identifier: Apache-2.0
"""Compiler from a partition to a TOSA graph."""

from __future__ import annotations

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.arm.settings import Settings
from delegatec.delegation.protocol.view import PartitionView


def lowered(view: PartitionView, settings: Settings) -> GraphBuilder:
    """Returns the TOSA graph of a partition.

    Args:
        view: the partition.
        settings: the user's settings.

    Raises:
        DelegatecError: DC406 for each constant that TOSA cannot represent.
    """
    builder = GraphBuilder(settings, view)
    _lower(builder, view)
    builder.check()
    return builder


def _lower(builder: GraphBuilder, view: PartitionView) -> None:
    """Lowers a graph, and then the bodies of its control flow."""
    for node in view.inputs:
        builder.input(node)
    TABLE.lower(builder, view.nodes)
    for node in view.outputs:
        builder.output(node)
    for node in view.inputs[len(view.inputs) - builder.passed :]:
        builder.output(node)
    for body in builder.bodies.values():
        assert body.view is not None
        _lower(body, body.view)
