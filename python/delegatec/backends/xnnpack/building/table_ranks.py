# SPDX-License-Identifier: Apache-2.0
"""Ranks of functions of 8-bit values, which the runtime computes by tables.

The result of a table has the shape of its operand. So an operation whose other operand is a constant of one
element and of a higher rank would lose dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation

from delegatec.backends.xnnpack.building.lookup_chains import BINARY, QUANTIZED, UNARY, is_scalar
from delegatec.backends.xnnpack.building.step import Step
from delegatec.backends.xnnpack.operands import NO_VALUE, operand_fields, result_ids

# The number of elements of which no constant is part of a table.
_TWO: Final = 2


def keep_ranks(
    steps: Sequence[Step],
    tensor: Callable[[int], schema.TensorT],
    like: Callable[[int, Sequence[int]], int],
) -> list[Step]:
    """Returns operations of which none that may be part of a table has a result of a higher rank.

    Such an operation reads the constant twice, one after the other, and the first part of the result remains.

    Args:
        steps: in execution order.
        tensor: returns the tensor of a value.
        like: adds a value with the type of another, and a shape.
    """
    found: list[Step] = []
    tabled: set[int] = set()
    for step in steps:
        if step.node.operationType not in UNARY | BINARY:
            found.append(step)
            continue
        fields = operand_fields(step.node)
        scalars = [(name, id) for name, id in fields if is_scalar(tensor(id))]
        variable = {id for _, id in fields} - {id for _, id in scalars}
        (result,) = result_ids(step.node)
        if not all(id in tabled or tensor(id).dataType in QUANTIZED for id in variable):
            found.append(step)
            continue
        rank = max((len(tensor(id).dims) for id in variable), default=len(tensor(result).dims))
        if len(scalars) == 1 and len(tensor(scalars[0][1]).dims) > rank:
            found += _twice(step, *scalars[0], tensor, like)
        else:
            found.append(step)
            tabled.add(result)
    return found


def _twice(
    step: Step,
    field: str,
    constant: int,
    tensor: Callable[[int], schema.TensorT],
    like: Callable[[int, Sequence[int]], int],
) -> list[Step]:
    """Returns the operation with a constant of two elements, and a slice of its result."""
    table: Any = step.node.operation
    ones, result = list(tensor(constant).dims), table.outputId
    pair = like(constant, [_TWO, *ones[1:]])
    both = like(result, [_TWO, *tensor(result).dims[1:]])
    joined = schema.ConcatenateT(0, constant, constant, NO_VALUE, NO_VALUE, pair, 0, NO_VALUE)
    setattr(table, field, pair)
    table.outputId = both
    rank = len(ones)
    first = schema.SliceT(rank, [0] * rank, [1, *[0] * (rank - 1)], both, result, 0)
    return [
        replace(step, node=schema.NodeT(Operation.Concatenate2, joined)),
        step,
        replace(step, node=schema.NodeT(Operation.Slice, first)),
    ]
