# SPDX-License-Identifier: Apache-2.0
"""How calls with indices address a tensor: as one dimension, with positions in it.

Positions are sums of small tensors that broadcast; none is written down in the size of a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.fx import Node

from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.operators.lookups.places import index_of, progression, ranked, weighted
from delegatec.edge.nodes import positive, shape_of


class Indexing:
    """The indices of `index` and `index_put`, as ATen reads them.

    Indices that stand side by side take the place of the dimensions that they index; others come first. Here
    the dimensions that are indexed become one.

    Args:
        b: the graph.
        data: what is addressed.
        indices: int32 or int64, one for each dimension from the first on, or None; at least one.

    Attributes:
        shape: of the data with the dimensions that are indexed as one.
        axis: where that is.
        index: positions along it, int32, in the broadcast shape of the indices.
        single: whether there is one index.
    """

    def __init__(self, b: GraphBuilder, data: Node, indices: Sequence[Node | None]) -> None:
        sizes = shape_of(data)
        given = [(dim, index) for dim, index in enumerate(indices) if index is not None]
        dims = [dim for dim, _ in given]
        others = [dim for dim in range(len(sizes)) if dim not in dims]
        adjacent = dims == list(range(dims[0], dims[-1] + 1))
        self.axis = dims[0] if adjacent else 0
        self.single = len(dims) == 1
        self._order = [*others[: self.axis], *dims, *others[self.axis :]]
        self._ordered = [sizes[dim] for dim in self._order]
        last = self.axis + len(dims)
        whole = math.prod(self._ordered[self.axis : last])
        self.shape = (*self._ordered[: self.axis], whole, *self._ordered[last:])
        strides = [math.prod(self._ordered[place + 1 : last]) for place in range(self.axis, last)]

        def make() -> int:
            return weighted([index_of(b, index, sizes[dim]) for dim, index in given], strides).id

        # Layers look up the same places, of tensors of one shape.
        self.index = Expression(b, b.once(("indexing", *given, *self.shape, *strides), make))

    def of(self, data: Expression) -> Expression:
        """The data in that shape."""
        return data.permute(*self._order).view(*self.shape)

    def back(self, data: Expression) -> Expression:
        """The data as they were before."""
        places = [self._order.index(dim) for dim in range(len(self._order))]
        return data.view(*self._ordered).permute(*places)


class Lines:
    """The index of `gather` and `scatter`, which has a place for each element.

    In dimensions at either end where the index is an expansion, all elements of a row have one place: rows
    are moved then, and the index is as much smaller. The dimensions between become one.

    Args:
        b: the graph.
        data: what is addressed.
        dim: the dimension that the index speaks of.
        index: int32 or int64, of the rank of the data, and not negative.

    Attributes:
        shape: of the data with the dimensions between as one.
        axis: where that is.
        index: positions along it, int32, in the shape of the index in the dimensions between.
    """

    def __init__(self, b: GraphBuilder, data: Node, dim: int, index: Node) -> None:
        sizes, wanted = shape_of(data) or (1,), shape_of(index) or (1,)
        rank = len(sizes)
        dim, base = positive(dim, rank), unexpanded(b, index)
        own = (*(1,) * (rank - len(shape_of(base))), *shape_of(base))
        free = [d != dim and own[d] == 1 and wanted[d] == sizes[d] for d in range(rank)]
        first = free.index(False)
        last = rank - free[::-1].index(False)
        self.axis = first
        self.shape = (*sizes[:first], math.prod(sizes[first:last]), *sizes[last:])

        def make() -> int:
            place = ranked(operand(b, base, torch.int32)).view(*own[first:last])
            strides = [math.prod(sizes[d + 1 : last]) for d in range(last)]
            # The index, which may be large, comes last: it is added to once.
            others = [d for d in range(first, last) if d != dim and wanted[d] > 1]
            parts = [progression(b, wanted[d], last - 1 - d, step=strides[d]) for d in others]
            total = weighted([*parts, place], [*(1 for _ in parts), strides[dim]])
            return total.expand(*wanted[first:last]).id

        self.index = Expression(b, b.once(("lines", index, dim, sizes), make))


def unexpanded(b: GraphBuilder, index: Node) -> Node:
    """What an index is an expansion of, if that is in the graph; else itself."""
    source = index.args[0] if index.target is torch.ops.aten.expand.default else None
    return source if isinstance(source, Node) and b.knows(source) else index
