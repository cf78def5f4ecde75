# SPDX-License-Identifier: Apache-2.0
"""Positions from indices, for targets with gathers by one nonnegative index.

Positions are int32, and sums of small constants that broadcast: none has the size of a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.fx import Node

from delegatec.edge.arguments import positive, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.value import Value, arange, table, value_of
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten


def positions(builder: Builder, size: int, dim: int, rank: int) -> Value:
    """Returns 0, 1, ... along one dimension of a shape that is 1 elsewhere: int32."""
    shape = [size if d == dim else 1 for d in range(rank)]
    return table(builder, torch.arange(size, dtype=torch.int32).view(shape))


def progression(builder: Builder, count: int, trailing: int = 0, *, start: int = 0, step: int = 1) -> Value:
    """Returns start, start + step, ... as int32, followed by `trailing` dimensions of size 1."""
    shape = (count, *(1,) * trailing)
    if not is_dynamic((count, start, step)):
        return table(builder, (torch.arange(count, dtype=torch.int32) * step + start).view(shape))
    if isinstance(count, int):
        found, has_steps = table(builder, torch.arange(count, dtype=torch.int32)), count > 1
    else:
        found, has_steps = arange(builder, count, torch.int32), step != 1
    found = found * step if has_steps else found
    return (found + start if start else found).view(*shape)


def as_int32(builder: Builder, index: Node, low: int, high: int) -> Value:
    """Returns an index with a known range as int32, of rank 1 or higher."""
    value = value_of(builder, index)
    if value.dtype != torch.int32:
        value = value.to(torch.int32).within(low, high)
    return value if value.shape else value.view(1)


def nonnegative_index(builder: Builder, index: Node, size: int) -> Value:
    """Returns an index without negative elements, which count from the end, as int32 of rank 1 or higher."""
    if builder.facts.of(index).low >= 0:
        return as_int32(builder, index, 0, size - 1)
    value = as_int32(builder, index, -size, size - 1)
    return value.lt(0).where(value + size, value).within(0, size - 1)


def linear_index(indices: Sequence[Value], strides: Sequence[int]) -> Value:
    """Returns the sum of indices, which broadcast, each times a stride."""
    first, *others = (
        index * stride if stride != 1 else index for index, stride in zip(indices, strides, strict=True)
    )
    for other in others:
        first = first + other
    return first


class TensorIndex:
    """The indices of `index` and `index_put`, with ATen's semantics.

    Adjacent indices replace the dimensions that they index; the result of others is the first dimension. Here
    the indexed dimensions are merged.

    Args:
        data: the indexed tensor.
        indices: int32 or int64, or None, for each of the first dimensions; at least one index.

    Attributes:
        shape: of the data with merged dimensions.
        axis: the merged dimension.
        index: positions along it, int32, in the broadcast shape of the indices.
    """

    def __init__(self, data: Value, indices: Sequence[Node | None]) -> None:
        given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        dims = [dim for dim, _ in given]
        others = [dim for dim in range(data.rank) if dim not in dims]
        adjacent = dims == list(range(dims[0], dims[-1] + 1))
        self.axis = dims[0] if adjacent else 0
        self._order = [*others[: self.axis], *dims, *others[self.axis :]]
        self._ordered = [data.shape[dim] for dim in self._order]
        last = self.axis + len(dims)
        joined = math.prod(self._ordered[self.axis : last])
        self.shape = (*self._ordered[: self.axis], joined, *self._ordered[last:])
        strides = [math.prod(self._ordered[index + 1 : last]) for index in range(self.axis, last)]
        each = [nonnegative_index(data.builder, index, data.shape[dim]) for dim, index in given]
        self.index = linear_index(each, strides)
        if len(each) > 1:
            self.index.within(0, joined - 1)

    def of(self, data: Value) -> Value:
        """Merges the indexed dimensions."""
        return data.permute(*self._order).view(*self.shape)

    def back(self, data: Value) -> Value:
        """Restores the original dimensions."""
        inverse = [self._order.index(dim) for dim in range(len(self._order))]
        return data.view(*self._ordered).permute(*inverse)


class ElementIndex:
    """The index of `gather` and `scatter`, which has a position for each element.

    If the index is an expansion in leading or trailing dimensions, complete slices are moved, and the index
    is smaller. The dimensions in between are merged.

    Args:
        data: the indexed tensor.
        dim: the indexed dimension.
        index: int32 or int64, of the rank of the data, and not negative.

    Attributes:
        shape: of the data with merged dimensions.
        axis: the merged dimension.
        index: positions along it, int32, in the shape of the index in the merged dimensions.
    """

    def __init__(self, data: Value, dim: int, index: Node) -> None:
        builder, sizes, wanted = data.builder, data.shape or (1,), shape_of(index) or (1,)
        rank = len(sizes)
        dim, base = positive(dim, rank), unexpand(index)
        own = (*(1,) * (rank - len(shape_of(base))), *shape_of(base))
        free = [d != dim and own[d] == 1 and wanted[d] == sizes[d] for d in range(rank)]
        first = free.index(False)
        last = rank - free[::-1].index(False)
        self.axis = first
        self.shape = (*sizes[:first], math.prod(sizes[first:last]), *sizes[last:])
        narrowed = as_int32(builder, base, 0, sizes[dim] - 1).view(*own[first:last])
        strides = [math.prod(sizes[d + 1 : last]) for d in range(last)]
        # The index, which may be large, comes last: only one addition has its size.
        others = [d for d in range(first, last) if d != dim and wanted[d] > 1]
        parts = [progression(builder, wanted[d], last - 1 - d, step=strides[d]) for d in others]
        total = linear_index([*parts, narrowed], [*(1 for _ in parts), strides[dim]])
        if total is not narrowed:
            total.within(0, self.shape[first] - 1)
        self.index = total.expand(*wanted[first:last])


def unexpand(index: Node) -> Node:
    """Returns the source of an expanded index; others unchanged."""
    source = index.args[0] if index.target is aten.expand.default else None
    return source if isinstance(source, Node) else index
