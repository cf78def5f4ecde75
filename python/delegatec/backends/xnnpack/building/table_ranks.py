# SPDX-License-Identifier: Apache-2.0
"""Ranks of functions of 8-bit values, which the runtime computes by tables.

The result of a table has the shape of its operand. So an operation whose other operand is a constant of one
element and of a higher rank would lose dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.lookup_chains import BINARY, QUANTIZED, UNARY, is_scalar
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.operands import operand_fields


def keep_ranks(
    steps: Sequence[Step],
    tensor: Callable[[int], schema.TensorT],
    like: Callable[[int, Sequence[int]], int],
    twice: Callable[[int], int],
) -> list[Step]:
    """Returns operations of which none that may be part of a table has a result of a higher rank.

    Such an operation reads a constant of two equal elements instead, and half of the result remains.

    Args:
        steps: in execution order.
        tensor: returns the tensor of a value.
        like: adds a value with the type of another, and a shape.
        twice: adds a constant of two elements, each of which is that of another constant.
    """
    found: list[Step] = []
    tabled: set[int] = set()
    for step in steps:
        fields = operand_fields(step.node)
        scalars = [(name, id) for name, id in fields if is_scalar(tensor(id))]
        variable = {id for _, id in fields} - {id for _, id in scalars}
        is_function = step.node.operationType in UNARY | BINARY
        if not is_function or any(
            id not in tabled and tensor(id).dataType not in QUANTIZED for id in variable
        ):
            found.append(step)
            continue
        table: Any = step.node.operation
        result = table.outputId
        rank = max((len(tensor(id).dims) for id in variable), default=0)
        raising = [(name, id) for name, id in scalars if variable and len(tensor(id).dims) > rank]
        if not raising:
            found.append(step)
            tabled.add(result)
            continue
        ((name, constant),) = raising
        dims = tensor(result).dims
        table.outputId = like(result, [2, *dims[1:]])
        setattr(table, name, twice(constant))
        others = [0] * (len(dims) - 1)
        half = schema.SliceT(len(dims), [0, *others], [1, *others], table.outputId, result, 0)
        found += [step, replace(step, node=schema.NodeT(Operation.Slice, half))]
    return found
