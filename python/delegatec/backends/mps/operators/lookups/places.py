# SPDX-License-Identifier: Apache-2.0
"""Places that indices name, and data that survive being moved there.

MPSGraph takes indices as int32, does not wrap negative ones, and moves integers through float32: those beyond
2^24 come out rounded (github.com/pytorch/pytorch/pull/123024), and bools not at all
(github.com/pytorch/pytorch/pull/82685). So integers that may be large are moved in parts that float32 holds,
and bools as int8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
from delegatec_schemas.mps_graph import IndexPutT, Operation, ScatterT
from torch.fx import Node

from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder, Operand
from delegatec.backends.mps.building.values import constant, operand, positions
from delegatec.backends.mps.operators.rules import EXACT_FLOAT32
from delegatec.edge.analysis.interval import Interval

INDICES: Final = frozenset({torch.int32, torch.int64})
"""dtypes of indices."""

EXACT: Final = ("BitwiseAnd", "Add", "Ne")
"""Operations that make a movement exact, besides the movement itself."""

# Bits that float32 holds, and that add up to all of them.
_PARTS: Final = {
    torch.int32: (0xFFFF, ~0xFFFF),
    torch.int64: (0xFFFFFF, 0xFFFFFF << 24, ~0 << 48),
}


def moved(
    b: GraphBuilder,
    values: Sequence[Operand],
    operands: Sequence[Expression],
    move: Callable[..., Expression],
) -> Expression:
    """What a look-up or a scatter gives, exact for every dtype.

    Args:
        b: the graph.
        values: nodes and numbers whose values are moved.
        operands: expressions that hold them, of one dtype.
        move: the movement, of as many expressions.
    """
    dtype = operands[0].dtype
    if dtype == torch.bool:
        return move(*(each.to(torch.int8) for each in operands)).to(torch.bool)
    if dtype not in _PARTS or all(_is_exact(b.facts.of(value)) for value in values):
        return move(*operands)
    first, *others = (move(*(each & mask for each in operands)) for mask in _PARTS[dtype])
    for other in others:
        first = first + other
    return first


def _is_exact(values: Interval) -> bool:
    return values.low >= -EXACT_FLOAT32 and values.high <= EXACT_FLOAT32


def index_of(b: GraphBuilder, node: Node, size: int) -> Expression:
    """An index that counts negative numbers from the end, as int32 that does not, of rank 1 at least.

    Args:
        b: the graph.
        node: the index.
        size: of what it indexes.
    """
    index = ranked(operand(b, node, torch.int32))
    if b.facts.of(node).low >= 0:
        return index
    wrapped = b.once(
        ("wrapped", index.id, size), lambda: index.compare(Operation.Lt, 0).where(index + size, index).id
    )
    return Expression(b, wrapped)


def ranked(index: Expression) -> Expression:
    """An index of rank 1 at least: MPSGraph gives a look-up by one of rank 0 a dimension less."""
    return index if index.shape else index.view(1)


def progression(b: GraphBuilder, count: int, behind: int = 0, *, start: int = 0, step: int = 1) -> Expression:
    """start, start + step, ... as int32, in front of `behind` dimensions of size 1."""
    if (start, step) == (0, 1):
        return positions(b, count, 0, 1 + behind)

    def make() -> int:
        values = torch.arange(count, dtype=torch.int32) * step + start
        return constant(b, values.view(-1, *(1,) * behind), "positions").id

    return Expression(b, b.once(("progression", count, behind, start, step), make))


def weighted(indices: Sequence[Expression], strides: Sequence[int]) -> Expression:
    """The sum of indices, which broadcast, each times a stride."""
    terms = [index * stride if stride != 1 else index for index, stride in zip(indices, strides, strict=True)]
    first, *others = terms
    for other in others:
        first = first + other
    return first


def broadcast(value: Expression, shape: Sequence[int]) -> Expression:
    """A value in a shape that it broadcasts to."""
    return aligned(value, len(shape)).expand(*shape)


def aligned(value: Expression, rank: int) -> Expression:
    """A value with as many dimensions, those in front of its own of size 1."""
    return value.view(*(1,) * (rank - len(value.shape)), *value.shape)


def put(data: Expression, axis: int, index: Expression, updates: Expression) -> Expression:
    """A tensor with slices of it replaced.

    MPSGraph's scatter takes an index of rank 1, and as many slices as that has elements.

    Args:
        data: what the rest is taken from.
        axis: dimension that is indexed.
        index: int32, rank 1.
        updates: slices along the axis; of the rank of the data, broadcast.
    """
    assert len(index.shape) == 1 and len(updates.shape) == len(data.shape)
    b, shape = data.builder, data.shape
    out = b.temporary(shape, data.dtype)
    table = IndexPutT(
        input1Id=data.id,
        indicesId=[-1] * axis + [index.id],
        valuesShape=[*shape[:axis], *index.shape, *shape[axis + 1 :]],
        valuesId=updates.id,
        outputId=out,
    )
    b.emit(Operation.IndexPut, table)
    return Expression(b, out)


def scatter(data: Expression, axis: int, index: Expression, updates: Expression) -> Expression:
    """A tensor with elements replaced, each line along an axis at places of its own.

    Dimensions of size 1 are left out: MPSGraph miscounts them
    (github.com/pytorch/pytorch/issues/121557).

    Args:
        data: what the rest is taken from.
        axis: dimension that is indexed.
        index: int32; of the sizes of the data but along the axis.
        updates: of the shape of the index.
    """
    b, shape = data.builder, data.shape
    kept = [dim for dim, size in enumerate(shape) if size > 1 or dim == axis]
    lean, index, updates = (value.view(*(value.shape[d] for d in kept)) for value in (data, index, updates))
    out = b.temporary(lean.shape, data.dtype)
    table = ScatterT(input1Id=lean.id, outputId=out, dim=kept.index(axis), idxId=index.id, srcId=updates.id)
    b.emit(Operation.Scatter, table)
    return Expression(b, out).view(*shape)
