# SPDX-License-Identifier: Apache-2.0
"""Look-ups.

Indices are not checked at run time: one that is out of range gives an undefined value. Those of `index` count
negative numbers from the end, which is done in the graph unless they cannot be negative.
"""

from __future__ import annotations

import math
from typing import Any, Final

from delegatec_schemas.mps_graph import EmbeddingT, IndexTensorT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.lookups.addressing import Indexing, Lines
from delegatec.backends.mps.operators.lookups.places import EXACT, INDICES, moved, progression, ranked
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import HAS_AXIS, argument
from delegatec.edge.nodes import positive, shape_of


def _embedding(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    index = ranked(operand(b, bound["indices"]))

    def look_up(weight: Expression) -> Expression:
        out = b.temporary((*index.shape, *weight.shape[1:]), weight.dtype)
        # padding_idx matters to gradients only, but the runtime would put zeros in the place of that row.
        table = EmbeddingT(input1Id=weight.id, input2Id=index.id, outputId=out, paddingIdx=-1)
        b.emit(Operation.Embedding, table)
        return Expression(b, out)

    weight = bound["weight"]
    moved(b, [weight], [operand(b, weight)], look_up).view(*shape_of(node)).bind(node)


def _index_select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    dim, index = positive(bound["dim"], len(shape_of(node))), ranked(operand(b, bound["index"]))
    moved(b, [source], [operand(b, source)], lambda x: x.index_select(dim, index)).bind(node)


def _index(b: GraphBuilder, node: Node) -> None:
    source = bind(node)["self"]
    place = Indexing(b, source, bind(node)["indices"])

    def look_up(x: Expression) -> Expression:
        if not place.single:
            return place.of(x).index_select(place.axis, place.index)
        shape = (*x.shape[: place.axis], *place.index.shape, *x.shape[place.axis + 1 :])
        out = b.temporary(shape, x.dtype)
        indices = [-1] * place.axis + [place.index.id]
        b.emit(Operation.IndexTensor, IndexTensorT(input1Id=x.id, indicesId=indices, outputId=out))
        return Expression(b, out)

    moved(b, [source], [operand(b, source)], look_up).view(*shape_of(node)).bind(node)


def _gather(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    place = Lines(b, source, bound["dim"], bound["index"])

    def look_up(x: Expression) -> Expression:
        return x.view(*place.shape).index_select(place.axis, place.index)

    moved(b, [source], [operand(b, source)], look_up).view(*shape_of(node)).bind(node)


def _flip(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = bound["self"]
    shape = shape_of(source)

    def turned(x: Expression) -> Expression:
        for dim in sorted(positive(dim, len(shape)) for dim in bound["dims"]):
            if shape[dim] > 1:
                x = x.index_select(dim, progression(b, shape[dim], start=shape[dim] - 1, step=-1))
        return x

    moved(b, [source], [operand(b, source)], turned).bind(node)


def _unfold(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, size, step = bound["self"], bound["size"], bound["step"]
    shape = shape_of(source)
    dim = positive(bound["dimension"], len(shape))
    count = shape_of(node)[dim]

    def windows(x: Expression) -> Expression:
        if size == step:  # They lie side by side.
            whole = x.slice(dim, 0, count * size)
            return whole.view(*shape[:dim], count, size, *shape[dim + 1 :])
        return x.index_select(dim, progression(b, count, 1, step=step) + progression(b, size))

    order = [d for d in range(len(shape) + 1) if d != dim + 1] + [dim + 1]
    moved(b, [source], [operand(b, source)], windows).permute(*order).bind(node)


def _as_strided(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, sizes = bound["self"], shape_of(node)
    strides = bound["stride"]
    index = progression(b, 1, max(len(sizes) - 1, 0), start=bound["storage_offset"] or 0)
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        if size > 1:
            index = index + progression(b, size, len(sizes) - 1 - dim, step=stride)

    def look_up(x: Expression) -> Expression:
        return x.view(math.prod(x.shape)).index_select(0, index)

    moved(b, [source], [operand(b, source)], look_up).view(*sizes).bind(node)


def _are_indices(indices: Any) -> bool:
    given = [index for index in indices if index is not None]
    return bool(given) and all(index.meta["val"].dtype in INDICES for index in given)


def _row(
    name: str, operations: str, lower: Lower, *constraints: Constraint, computes: bool = True, note: str = ""
) -> OperatorRow:
    emits = dict.fromkeys((*operations.split(), *EXACT))
    return OperatorRow(overload(name), tuple(emits), lower, constraints, computes, note)


_LOOK_UP: Final = "View IndexSelect Mul Add"

ROWS: Final = (
    _row(
        "embedding",
        "Embedding View",
        _embedding,
        note="without padding_idx, which matters to gradients only",
    ),
    _row("index_select", "IndexSelect View", _index_select, HAS_AXIS),
    _row(
        "index.Tensor",
        f"IndexTensor Permute Lt Where {_LOOK_UP}",
        _index,
        HAS_AXIS,
        argument(
            "indices",
            _are_indices,
            "Indices are int32 or int64: how many elements a mask picks is not known before.",
            "torch.where for masks",
        ),
        note="one index by IndexTensor, several as positions in a View; integers that may be beyond 2^24 in "
        "parts that float32 holds, in which MPSGraph moves them, and bools as int8, as in all look-ups",
    ),
    _row("gather", f"{_LOOK_UP} Expand", _gather, note="by positions in a View"),
    _row("flip", "IndexSelect", _flip, computes=False),
    _row("unfold", f"{_LOOK_UP} Slice Permute", _unfold, HAS_AXIS, computes=False),
    _row("as_strided", _LOOK_UP, _as_strided, computes=False, note="of an operand in row-major order"),
)
