# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters along one dimension, by an index that is not negative.

GATHER has values [N, K, C] and indices [N, W], of which it returns [N, W, C]; SCATTER replaces [N, W, C].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import ALL
from delegatec.backends.arm.operators.conversion import converted
from delegatec.backends.arm.operators.moves import sliced, tiled
from delegatec.backends.arm.operators.row import Constraint, operator_row
from delegatec.delegation.protocol.parts import join
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, dtype_of, positive, shape_of
from delegatec.edge.legalize import constraint
from delegatec.edge.legalize.constraints import argument
from delegatec.edge.legalize.rules.index_put import puts_one_value
from delegatec.edge.legalize.rules.indices import unexpand

aten = torch.ops.aten

_MOVES: Final = (aten.expand.default, aten.view.default, aten._to_copy.default)
_INDEX: Final = (torch.int32, torch.int64)


# ---- slices --------------------------------------------------------------------------------------------


def _index_select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    value = b.of(bound["self"])
    found = _slices(b, value, positive(bound["dim"], max(len(value.shape), 1)), bound["index"])
    b.alias(node, b.reshaped(found, shape_of(node)))


def _index(b: GraphBuilder, node: Node) -> None:
    dim, index = _single(node)
    b.alias(node, _slices(b, b.of(bind(node)["self"]), dim, index))


def _embedding(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    b.alias(node, _slices(b, b.of(bound["weight"]), 0, bound["indices"]))


def _slices(b: GraphBuilder, value: Value, dim: int, index: Node) -> Value:
    """Returns slices of a dimension, which the dimensions of the index replace."""
    sizes = value.shape or (1,)
    before, after = sizes[:dim], sizes[dim + 1 :]
    batch, count = math.prod(before), math.prod(shape_of(index))
    moved = b.reshaped(value, (batch, sizes[dim], math.prod(after)))
    found = _gathered(b, moved, _repeated(b, index, batch, count))
    return b.reshaped(found, (*before, *shape_of(index), *after))


def _index_put(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim, index = _single(node)
    value, updates = b.of(bound["self"]), b.of(bound["values"])
    before, after = value.shape[:dim], value.shape[dim + 1 :]
    batch, count, size = math.prod(before), math.prod(shape_of(index)), math.prod(after)
    full_shape = (*before, *shape_of(index), *after)
    updates = tiled(b, b.ranked(updates, len(full_shape)), full_shape)
    positions = _repeated(b, index, batch, count)
    moved = b.reshaped(value, (batch, value.shape[dim], size))
    result = _scattered(b, moved, positions, b.reshaped(updates, (batch, count, size)))
    b.alias(node, b.reshaped(result, value.shape))


def _repeated(b: GraphBuilder, index: Node, batch: int, count: int) -> Value:
    """Returns the elements of an index in each row of a matrix."""
    shape = (batch, count)
    if b.is_constant(index):
        return b.arranged(index, lambda tensor: tensor.reshape(1, -1).expand(shape), "rows", batch)
    if shape_of(index) == shape:
        return b.of(index)
    return _moved_index(b, b.of(index), lambda value: tiled(b, b.reshaped(value, (1, count)), shape))


# ---- elements ------------------------------------------------------------------------------------------


class _Lines:
    """The dimensions of `gather` and `scatter`, in the order of GATHER and SCATTER.

    Args:
        node: the call.

    Attributes:
        dim: the indexed dimension.
        sizes: of the data that the index covers, in the original order.
    """

    def __init__(self, node: Node) -> None:
        bound = bind(node)
        data, wanted = shape_of(bound["self"]) or (1,), shape_of(bound["index"]) or (1,)
        rank = len(data)
        self.dim = positive(bound["dim"], rank)
        self.sizes = [size if each == self.dim else wanted[each] for each, size in enumerate(data)]
        self._count = wanted[self.dim]
        # the index is expanded along the dimensions of the slices
        self._index = unexpand(bound["index"])
        self._own = (*(1,) * (rank - len(shape_of(self._index))), *shape_of(self._index))
        if self._own[self.dim] != self._count:
            self._index, self._own = bound["index"], wanted
        others = [each for each in range(rank) if each != self.dim and self._own[each] > 1]
        free = [each for each in range(rank) if each != self.dim and each not in others]
        self._order = [*others, self.dim, *free]
        self._batch, self._width = (math.prod(wanted[each] for each in dims) for dims in (others, free))

    def positions(self, b: GraphBuilder) -> Value:
        """Returns the index as [N, W]."""
        shape, own, order = (self._batch, self._count), self._own, self._order
        if b.is_constant(self._index):
            return b.arranged(
                self._index, lambda index: index.reshape(own).permute(*order).reshape(shape), "lines", *order
            )
        if shape_of(self._index) == shape and order == sorted(order):
            return b.of(self._index)
        return _moved_index(
            b, b.of(self._index), lambda index: b.reshaped(b.permuted(b.reshaped(index, own), order), shape)
        )

    def matrices(self, b: GraphBuilder, value: Value) -> Value:
        """Returns elements as [N, K, C]."""
        moved = b.permuted(b.reshaped(value, value.shape or (1,)), self._order)
        return b.reshaped(moved, (self._batch, value.shape[self.dim] if value.shape else 1, self._width))

    def back(self, b: GraphBuilder, value: Value, shape: Sequence[int]) -> Value:
        """Returns [N, K, C] in the original order of dimensions."""
        sizes = shape or (1,)
        value = b.reshaped(value, [sizes[dim] for dim in self._order])
        value = b.permuted(value, [self._order.index(dim) for dim in range(len(self._order))])
        return b.reshaped(value, shape)


def _gather(b: GraphBuilder, node: Node) -> None:
    lines, value = _Lines(node), b.of(bind(node)["self"])
    if value.shape:
        value = sliced(b, value, [0] * len(value.shape), lines.sizes)
    found = _gathered(b, lines.matrices(b, value), lines.positions(b))
    b.alias(node, lines.back(b, found, shape_of(node)))


def _scatter(b: GraphBuilder, node: Node) -> None:
    bound, lines = bind(node), _Lines(node)
    value, updates = b.of(bound["self"]), b.of(bound["src"])
    if updates.shape:
        updates = sliced(b, updates, [0] * len(updates.shape), shape_of(bound["index"]))
    result = _scattered(b, lines.matrices(b, value), lines.positions(b), lines.matrices(b, updates))
    b.alias(node, lines.back(b, result, value.shape))


# ---- operators -----------------------------------------------------------------------------------------


def _moved_index(b: GraphBuilder, index: Value, move: Callable[[Value], Value]) -> Value:
    """Moves an index. The profile FP moves no integers; positions in a dimension are exact in FP32."""
    if b.settings.specification.integer:
        return move(index)
    return b.cast(move(b.cast(index, DType.FP32)), DType.INT32)


def _as_int32(b: GraphBuilder, value: Value) -> Value:
    """Returns bools, which TOSA does not gather, as integers."""
    if value.dtype != DType.BOOL:
        return value
    return converted(b, value, DType.INT8 if b.settings.specification.integer else DType.FP32)


def _gathered(b: GraphBuilder, values: Value, positions: Value) -> Value:
    moved, shape = _as_int32(b, values), (*positions.shape, values.shape[2])
    return converted(b, b.emit("GATHER", moved, positions, shape=shape), values.dtype)


def _scattered(b: GraphBuilder, values: Value, positions: Value, updates: Value) -> Value:
    moved = _as_int32(b, values)
    updates = converted(b, updates, moved.dtype)
    result = None
    if positions.is_constant:
        result = _scattered_once(b, moved, positions, updates)
    if result is None:
        result = b.emit("SCATTER", moved, positions, updates, shape=values.shape)
    return converted(b, result, values.dtype)


def _scattered_once(b: GraphBuilder, values: Value, positions: Value, updates: Value) -> Value | None:
    """Scatters to constant positions that are repeated; None if they are not.

    SCATTER would be invalid. The last update of each position is gathered.
    """
    rows, count = values.shape[:2]
    last = torch.zeros(rows, count, dtype=torch.int32)
    hits = torch.zeros(rows, count, 1, dtype=torch.bool)
    if positions.part is not None:
        index = torch.frombuffer(bytearray(join([positions.part])), dtype=torch.int32).reshape(
            positions.shape
        )
        if bool((index.sort(1).values.diff(dim=1) != 0).all()):
            return None
        index = index.to(torch.int64)
        last.scatter_reduce_(
            1, index, torch.arange(positions.shape[1], dtype=torch.int32).expand(index.shape), "amax"
        )
        hits[:, :, 0].scatter_(1, index, True)
    found = b.emit("GATHER", updates, b.tensor(last), shape=values.shape)
    result = b.emit("SELECT", b.tensor(hits), found, values, dtype=values.dtype, shape=values.shape)
    # a call that is tried has positions without values
    return None if positions.part is None else result


# ---- constraints ---------------------------------------------------------------------------------------


def _single(node: Node) -> tuple[int, Node]:
    """Returns the indexed dimension and the index."""
    (found,) = ((dim, each) for dim, each in enumerate(bind(node)["indices"]) if each is not None)
    return found


def _is_single(indices: object) -> bool:
    assert isinstance(indices, (list, tuple))
    given = [each for each in indices if each is not None]
    return len(given) == 1 and dtype_of(given[0]) in _INDEX


def _may_be_negative(node: Node, facts: Facts) -> str | None:
    index = _single(node)[1]
    return None if facts.of(index).low >= 0 else f"{index.name} may have negative elements"


def _repeats(node: Node, facts: Facts) -> str | None:
    dim, index = _single(node)
    if facts.constant(index) is not None:
        return None
    must_repeat = math.prod(shape_of(index)) > shape_of(bind(node)["self"])[dim]
    return _repeated_reason(index, must_repeat, puts_one_value(node))


def _repeats_in_lines(node: Node, facts: Facts) -> str | None:
    bound = bind(node)
    index, sizes = bound["index"], shape_of(bound["index"])
    if facts.constant(index) is not None:
        return None
    dim = positive(bound["dim"], max(len(sizes), 1))
    count, most = (size[dim] if size else 1 for size in (sizes, shape_of(bound["self"])))
    return _repeated_reason(index, count > most, count > 1 and _is_one(bound["src"]))


def _repeated_reason(index: Node, must: bool, may: bool) -> str | None:
    """Returns why SCATTER has no such positions; torch defines repeated ones of equal values."""
    if must:
        return f"{index.name} is not constant, and has more positions than the dimension"
    return f"{index.name} is not constant, and may repeat positions" if may else None


def _is_one(node: Node) -> bool:
    """Whether the elements of a value are equal."""
    while node.target in _MOVES and isinstance(node.args[0], Node):
        node = node.args[0]
    return math.prod(shape_of(node)) == 1 or node.target is aten.full.default


def _partial(node: Node, _: object) -> str | None:
    bound = bind(node)
    shape, wanted = shape_of(bound["self"]) or (1,), shape_of(bound["index"]) or (1,)
    dim = positive(bound["dim"], len(shape))
    if all(size == wanted[each] or each == dim for each, size in enumerate(shape)):
        return None
    return f"an index of shape {list(wanted)} for an operand of shape {list(shape)}"


_SINGLE: Final = argument(
    "indices", _is_single, "Exactly one index is given, of integers: GATHER and SCATTER index one dimension."
)
_IN_RANGE: Final = constraint.Constraint(
    "index", "Indices are not negative: GATHER and SCATTER do not count from the end.", _may_be_negative
)
_UNIQUE: Final = constraint.Constraint(
    "index",
    "Indices of several values are constant: SCATTER does not define repeated indices.",
    _repeats,
)
_COVERED: Final[Constraint] = constraint.Constraint(
    "argument",
    "The index has the sizes of the operand in all other dimensions: SCATTER writes complete slices.",
    _partial,
)
_UNIQUE_IN_LINES: Final = constraint.Constraint("index", _UNIQUE.doc, _repeats_in_lines)
_REPLACES: Final = argument(
    "accumulate", lambda value: not value, "accumulate is false: SCATTER does not add."
)

ROWS: Final = (
    operator_row("index_select", _index_select, ALL),
    operator_row("index.Tensor", _index, ALL, _SINGLE, known=(_IN_RANGE,)),
    operator_row("embedding", _embedding, ALL),
    operator_row("gather", _gather, ALL),
    operator_row("index_put", _index_put, ALL, _SINGLE, _REPLACES, known=(_IN_RANGE, _UNIQUE)),
    operator_row("scatter.src", _scatter, ALL, _COVERED, known=(_UNIQUE_IN_LINES,)),
)
