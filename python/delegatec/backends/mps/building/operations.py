# SPDX-License-Identifier: Apache-2.0
"""Operations that lowerings of several rows emit; each function returns the id of the result.

The runtime gives a value of rank 0 the shape [1].
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from delegatec_schemas import mps_graph as schema
from delegatec_schemas.mps_graph import Operation

from delegatec.backends.common.node_values import Number
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.dtypes import TO_FORMAT
from delegatec.edge.arguments import broadcast

_SCALED: Final = partial(schema.ScaledBinaryT, alpha=1.0)
_TABLES: Final[dict[int, Any]] = {
    Operation.Add: _SCALED,
    Operation.Sub: _SCALED,
    Operation.Div: schema.DivisionT,
}
_TESTS: Final = (Operation.Eq, Operation.Gt, Operation.Lt, Operation.Isnan)


def full(b: GraphBuilder, shape: Sequence[int], scalar: Number, dtype: torch.dtype) -> int:
    """Emits a scalar broadcast to a shape."""
    out, value = b.temporary(shape, dtype), b.representable(scalar, dtype)
    b.emit(Operation.Full, schema.FullT(-1, out, list(shape), value, TO_FORMAT[dtype]))
    return out


def reshaped(b: GraphBuilder, id: int, shape: Sequence[int], operation: int = Operation.View) -> int:
    """Emits a View or an Expand, unless the value has the shape."""
    dtype, old = b.type_of(id)
    if tuple(shape) == old:
        return id
    out = b.temporary(shape, dtype)
    b.emit(operation, schema.ViewT(id, out, numDims=len(shape), shape=list(shape)))
    return out


def unary(b: GraphBuilder, operation: int, id: int) -> int:
    """Emits a function of one value, in its dtype, or bool for a test."""
    dtype, shape = b.type_of(id)
    out = b.temporary(shape, torch.bool if operation in _TESTS else dtype)
    b.emit(operation, schema.UnaryT(input1Id=id, outputId=out))
    return out


def binary(b: GraphBuilder, operation: int, first: int, second: int | float) -> int:
    """Emits a function of two values of one dtype, which broadcast; a float is a scalar, not an id."""
    dtype, shape = b.type_of(first)
    other = b.scalar(second, dtype) if isinstance(second, float) else second
    assert b.type_of(other)[0] == dtype
    result = torch.bool if operation in _TESTS else dtype
    out = b.temporary(broadcast(shape, b.type_of(other)[1]), result)
    b.emit(operation, _TABLES.get(operation, schema.BinaryT)(input1Id=first, input2Id=other, outputId=out))
    return out


def where(b: GraphBuilder, condition: int, then: int, otherwise: int) -> int:
    """Emits a selection between two values of one dtype."""
    shape = broadcast(*(b.type_of(id)[1] for id in (condition, then, otherwise)))
    out = b.temporary(shape, b.type_of(then)[0])
    b.emit(Operation.Where, schema.TernaryT(condition, then, otherwise, out))
    return out
