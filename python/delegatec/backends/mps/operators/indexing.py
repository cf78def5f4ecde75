# SPDX-License-Identifier: Apache-2.0
"""Look-ups.

Indices are not checked at run time: a negative one, or one out of range, gives an undefined value.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import EmbeddingT, IndexSelectT, IndexTensorT, Operation, ScatterT
from torch.fx import Node

from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of, positive, shape_of
from delegatec.backends.mps.operators.family import overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import argument, rank_of
from delegatec.backends.mps.operators.slices import slice_bounds
from delegatec.edge.arguments import bind

_INDICES: Final = frozenset({torch.int32, torch.int64})


def _embedding(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    # padding_idx matters to gradients only, but the runtime would put zeros in the place of that row.
    table = EmbeddingT(
        input1Id=b.of(bound["weight"]),
        input2Id=b.of(bound["indices"]),
        outputId=b.result(node),
        paddingIdx=-1,
    )
    b.emit(Operation.Embedding, table)


def _index_select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    dim = positive(bound["dim"], len(shape_of(bound["self"])))
    table = IndexSelectT(
        input1Id=b.of(bound["self"]), outputId=b.result(node), dim=dim, indexId=b.of(bound["index"])
    )
    b.emit(Operation.IndexSelect, table)


def _index(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source = b.of(bound["self"])
    # MPSGraph gathers by int32, and this operation, unlike IndexSelect, does not convert.
    indices = [-1 if index is None else b.operand(index, torch.int32) for index in bound["indices"]]
    b.emit(Operation.IndexTensor, IndexTensorT(input1Id=source, indicesId=indices, outputId=b.result(node)))


def _slice_scatter(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    source, update = bound["self"], bound["src"]
    dim = positive(bound["dim"], len(shape_of(source)))
    start, end, step = slice_bounds(bound, shape_of(source)[dim])
    along = [1] * len(shape_of(source))
    along[dim] = -1
    positions = torch.arange(start, end, step, dtype=torch.int32).view(along).expand(shape_of(update))
    table = ScatterT(
        input1Id=b.of(source),
        outputId=b.result(node),
        dim=dim,
        idxId=b.constant(positions, lambda: "positions"),
        srcId=b.operand(update, dtype_of(source)),
    )
    b.emit(Operation.Scatter, table)


def _is_one_tensor(indices: Any) -> bool:
    given = [index for index in indices if index is not None]
    return len(given) == 1 and given[0].meta["val"].dtype in _INDICES


_HAS_AXIS: Final = rank_of("self", range(1, 17), "it has an axis.")

ROWS: Final = (
    OperatorRow(
        overload("embedding"),
        ("Embedding",),
        _embedding,
        note="padding_idx is left out, as it does not matter to the result",
    ),
    OperatorRow(overload("index_select"), ("IndexSelect",), _index_select, (_HAS_AXIS,)),
    OperatorRow(
        overload("index.Tensor"),
        ("IndexTensor", "Cast"),
        _index,
        (
            _HAS_AXIS,
            argument(
                "indices",
                _is_one_tensor,
                "One index, of int32 or int64: the runtime stops at several, and at masks.",
            ),
        ),
    ),
    OperatorRow(overload("slice_scatter"), ("Scatter",), _slice_scatter, (_HAS_AXIS,)),
)
