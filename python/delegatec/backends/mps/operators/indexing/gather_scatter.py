# SPDX-License-Identifier: Apache-2.0
"""The format's gathers and scatters, by one index.

MPSGraph converts indices to int32, does not count negative ones from the end, removes a dimension for an
index of rank 0, and moves integers as float32, which rounds those beyond 2^24
(github.com/pytorch/pytorch/pull/123024), and does not support bools (github.com/pytorch/pytorch/pull/82685).
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import EmbeddingT, IndexPutT, IndexSelectT, IndexTensorT, Operation, ScatterT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.row import ByFacts, Constraint, OperatorRow
from delegatec.edge.analysis.facts import Facts
from delegatec.edge.arguments import bind, positive, shape_of
from delegatec.edge.legalize.constraints import HAS_AXIS, argument, rank_of
from delegatec.edge.legalize.rules.gather import INDICES
from delegatec.edge.legalize.rules.indices import unexpand
from delegatec.edge.legalize.rules.integer_moves import MOVED, is_exact


def _embedding(b: GraphBuilder, node: Node) -> None:
    weight, index = (b.of(bind(node)[name]) for name in ("weight", "indices"))
    # padding_idx is for gradients only, but the runtime would replace that row by zeros.
    b.emit(Operation.Embedding, EmbeddingT(weight, index, b.result(node), paddingIdx=-1))


def _index_select(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    _select(b, node, positive(bound["dim"], len(shape_of(node))), b.of(bound["index"]))


def _select(b: GraphBuilder, node: Node, dim: int, index: int) -> None:
    x = b.of(bind(node)["self"])
    b.emit(Operation.IndexSelect, IndexSelectT(x, b.result(node), dim=dim, indexId=index))


def _index(b: GraphBuilder, node: Node) -> None:
    """Emits IndexSelect for int32 indices, which rewrites compute."""
    dim, index = _dim_and_index(node)
    if index.meta["val"].dtype == torch.int32:
        _select(b, node, dim, b.of(index))
        return
    table = IndexTensorT(b.of(bind(node)["self"]), _indices(b, dim, index), b.result(node))
    b.emit(Operation.IndexTensor, table)


def _index_put(b: GraphBuilder, node: Node) -> None:
    bound, (dim, index) = bind(node), _dim_and_index(node)
    shape = list(shape_of(node))
    table = IndexPutT(
        input1Id=b.of(bound["self"]),
        indicesId=_indices(b, dim, index),
        valuesShape=[*shape[:dim], *shape_of(index), *shape[dim + 1 :]],
        valuesId=b.of(bound["values"]),
        outputId=b.result(node),
    )
    b.emit(Operation.IndexPut, table)


def _scatter(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    index, source = b.operand(bound["index"], torch.int32), b.of(bound["src"])
    dim = positive(bound["dim"], len(shape_of(node)))
    b.emit(Operation.Scatter, ScatterT(b.of(bound["self"]), b.result(node), dim, index, source))


def _dim_and_index(node: Node) -> tuple[int, Node]:
    """Returns the indexed dimension and the index."""
    (found,) = ((dim, each) for dim, each in enumerate(bind(node)["indices"]) if each is not None)
    return found


def _indices(b: GraphBuilder, dim: int, index: Node) -> list[int]:
    return [-1] * dim + [b.operand(index, torch.int32)]


# ---- constraints -----------------------------------------------------------------------------------------


def _single(indices: Any) -> bool:
    return sum(index is not None for index in indices) == 1


def _rank_0(node: Node, _: object) -> str | None:
    return None if _dim_and_index(node)[1].meta["val"].dim() else "index of rank 0"


def _indexed_slices(node: Node, _: object) -> str | None:
    """Returns why a call of index_put is not one write of slices."""
    bound = bind(node)
    ranks = [len(shape_of(each)) for each in (_dim_and_index(node)[1], bound["self"], bound["values"])]
    if ranks[0] != 1 or ranks[1] != ranks[2]:
        return f"index, operand and values of rank {ranks}"
    return "accumulate is true" if bound["accumulate"] else None


def _scattered_lines(node: Node, _: object) -> str | None:
    """Returns why a call of scatter is not one Scatter."""
    bound, index = bind(node), bind(node)["index"]
    shape, index_shape, values = (shape_of(bound[name]) for name in ("self", "index", "src"))
    dim = positive(bound["dim"], len(shape))
    has_lines = all(1 < size == index_shape[d] for d, size in enumerate(shape) if d != dim)
    if shape and has_lines and index_shape == values and unexpand(index) is index:
        return None
    return f"operand, index and source of shapes {shape}, {index_shape} and {values}"


def _inexact(node: Node, facts: Facts) -> str | None:
    target: Any = node.target
    bound = bind(node)
    return next(
        (f"{name} may have such an element" for name in MOVED[target] if not is_exact(facts, bound[name])),
        None,
    )


def _negative(node: Node, facts: Facts) -> str | None:
    low = facts.of(_dim_and_index(node)[1]).low
    return f"an index may be {int(low)}" if low < 0 else None


_ONE: Final = argument("indices", _single, "Exactly one index is given: the format has no several.")
_EXACT: Final = ByFacts(
    "exact", "Elements are not bool, nor integers beyond 2^24: MPSGraph moves integers as float32.", _inexact
)
_IN_RANGE: Final = ByFacts(
    "index", "Indices are not negative: MPSGraph does not count from the end.", _negative
)
_ANY_RANK: Final = range(1, 17)
_RANK: Final = "MPSGraph removes a dimension for an index of rank 0."

ROWS: Final = (
    OperatorRow(
        overload("embedding"),
        _embedding,
        (rank_of("indices", _ANY_RANK, _RANK),),
        known=(_EXACT,),
        note="ignores padding_idx, which is for gradients only",
    ),
    OperatorRow(
        overload("index_select"),
        _index_select,
        (HAS_AXIS, rank_of("index", (1,), _RANK)),
        known=(_EXACT,),
    ),
    OperatorRow(
        overload("index.Tensor"),
        _index,
        (HAS_AXIS, INDICES, _ONE, Constraint("rank", f"The index has a dimension: {_RANK}", _rank_0)),
        known=(_IN_RANGE, _EXACT),
        note="by IndexSelect for int32 positions, which rewrites compute",
    ),
)

SCATTERS: Final = (
    OperatorRow(
        overload("index_put"),
        _index_put,
        (
            HAS_AXIS,
            INDICES,
            _ONE,
            Constraint(
                "argument",
                "Values have the rank and dtype of the operand, and the index has rank 1.",
                _indexed_slices,
            ),
        ),
        known=(_IN_RANGE, _EXACT),
    ),
    OperatorRow(
        overload("scatter.src"),
        _scatter,
        (
            # github.com/pytorch/pytorch/issues/121557: MPSGraph miscounts dimensions of size 1.
            Constraint(
                "argument",
                "Index and source have the sizes of the operand, none of them 1, except along dim; "
                "an expanded index is an index_put of rows.",
                _scattered_lines,
            ),
        ),
        known=(_EXACT,),
    ),
)
