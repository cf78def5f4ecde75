# SPDX-License-Identifier: Apache-2.0
"""Poolings whose indices nothing reads: the runtime has no memory for them, and crashes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.step import Step


def drop_positions(steps: Sequence[Step], used: Collection[int]) -> list[Step]:
    """Replaces poolings by plain max pools where the indices are neither read nor outputs.

    Args:
        steps: in execution order.
        used: values that operations read, and outputs.
    """
    return [_maxima(step) if _is_unread(step, used) else step for step in steps]


def _is_unread(step: Step, used: Collection[int]) -> bool:
    table: Any = step.node.operation
    return isinstance(table, schema.ArgMaxPoolingT) and table.outputIndexId not in used


def _maxima(step: Step) -> Step:
    """Returns a max pool of the same, adjacent windows."""
    positions: Any = step.node.operation
    table = schema.PoolingT(
        poolingHeight=positions.poolingHeight,
        poolingWidth=positions.poolingWidth,
        strideHeight=positions.poolingHeight,
        strideWidth=positions.poolingWidth,
        dilationHeight=1,
        dilationWidth=1,
        inputId=positions.inputId,
        outputId=positions.outputValueId,
    )
    return replace(step, node=schema.NodeT(Operation.MaxPooling, table, 0, step.node.limits))
