# SPDX-License-Identifier: Apache-2.0
"""Fusion of clamps into the limits of the operation that computes their operand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.operands import operand_ids, result_ids

_LIMITED: Final = frozenset(
    {
        *(Operation.Add, Operation.Subtract, Operation.Multiply, Operation.Divide),
        *(Operation.FullyConnected, Operation.Clamp),
        *(Operation.Convolution, Operation.DepthwiseConvolution, Operation.TransposedConvolution),
        *(Operation.AveragePooling, Operation.GlobalAveragePooling, Operation.MaxPooling),
    }
)
"""Operations whose results the runtime can clamp."""
_MOVES: Final = frozenset({Operation.Reshape, Operation.Transpose})


def fuse_clamps(
    steps: Sequence[Step], outputs: Collection[int], have_one_scale: Callable[[int, int], bool]
) -> list[Step]:
    """Fuses each clamp into the operation before it, if that has limits and no other consumer.

    Its result may be reshaped or permuted before it is clamped.

    Args:
        steps: in execution order.
        outputs: values that others read.
        have_one_scale: whether two values have the same scale, or none: quantized values saturate at the ends
            of its range.
    """
    readers = Counter(id for step in steps for id in operand_ids(step.node))
    readers.update(outputs)
    found: list[Step] = []
    indices: dict[int, int] = {}  # value -> the index of the operation that computes it
    for step in steps:
        table: Any = step.node.operation
        if step.node.operationType == Operation.Clamp and have_one_scale(table.inputId, table.outputId):
            chain = _chain(found, indices, readers, table.inputId)
            limits = _joint(found[chain[-1]].node, step.node) if chain else None
            if limits is not None:
                before = found[chain[-1]]
                before.node.limits = limits
                found[chain[-1]] = replace(before, origins=(*before.origins, *step.origins))
                last: Any = found[chain[0]].node.operation
                last.outputId = table.outputId
                indices[table.outputId] = chain[0]
                continue
        indices.update(dict.fromkeys(result_ids(step.node), len(found)))
        found.append(step)
    return found


def _chain(
    found: Sequence[Step], indices: Mapping[int, int], readers: Mapping[int, int], id: int
) -> list[int]:
    """Returns the indices of moves, the last one first, and then that of the operation before them.

    It is empty if others read the value, or one that is moved.
    """
    chain: list[int] = []
    while readers[id] == 1 and id in indices:
        chain.append(indices[id])
        node = found[indices[id]].node
        if node.operationType not in _MOVES:
            return chain
        (id,) = operand_ids(node)
    return []


def _joint(node: schema.NodeT, clamp: schema.NodeT) -> schema.LimitsT | None:
    """Returns the joint limits of an operation and of the clamp after it; None if it takes none."""
    if node.operationType not in _LIMITED:
        return None
    both = [clamp.limits] if node.limits is None else [node.limits, clamp.limits]
    least, most = max(each.least for each in both), min(each.most for each in both)
    return schema.LimitsT(least, most) if least < most else None
