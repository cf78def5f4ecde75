# SPDX-License-Identifier: Apache-2.0
"""Expressions from operands, constants and numbers, and concatenation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from delegatec_schemas import mps_graph as schema
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder, Number
from delegatec.backends.mps.dtypes import TO_FORMAT
from delegatec.delegation.protocol.parts import tensor_bytes


def operand(builder: GraphBuilder, node: Node | Number, dtype: torch.dtype | None = None) -> Expression:
    """Returns the expression of an operand: a node, optionally cast to a dtype, or a number in that dtype."""
    if dtype is None:
        assert isinstance(node, Node)
        return Expression(builder, builder.of(node))
    return Expression(builder, builder.operand(node, dtype))


def constant(
    builder: GraphBuilder, tensor: torch.Tensor, name: str, dtype: torch.dtype | None = None
) -> Expression:
    """Adds a constant of a lowering in a dtype; `name` is for the error if it cannot be converted."""
    return Expression(builder, builder.constant(tensor, lambda: name, dtype))


def table(builder: GraphBuilder, values: torch.Tensor) -> Expression:
    """Adds a small, deduplicated constant of a lowering; integers become int32, the dtype of indices."""
    values = values if values.is_floating_point() else values.to(torch.int32)
    key = ("table", values.dtype, values.shape, bytes(tensor_bytes(values)))
    return Expression(
        builder, builder.shared(key, lambda: builder.constant(values, lambda: "a constant of the lowering"))
    )


def full(builder: GraphBuilder, shape: Sequence[int], number: Number, dtype: torch.dtype) -> Expression:
    """Returns a tensor filled with a number."""
    out = builder.temporary(shape, dtype)
    table = schema.FullT(
        input1Id=-1,
        outputId=out,
        shape=list(shape),
        fillValue=builder.number(number, dtype),
        dtype=TO_FORMAT[dtype],
    )
    builder.emit(Operation.Full, table)
    return Expression(builder, out)


def cat(values: Sequence[Expression], dim: int) -> Expression:
    """Concatenates values of one dtype along a dimension, which is not negative."""
    first = values[0]
    if len(values) == 1:
        return first
    assert all(value.dtype == first.dtype for value in values)
    size = sum(value.shape[dim] for value in values)
    out = first.builder.temporary((*first.shape[:dim], size, *first.shape[dim + 1 :]), first.dtype)
    first.builder.emit(Operation.Cat, schema.CatT([value.id for value in values], out, dim))
    return Expression(first.builder, out)
