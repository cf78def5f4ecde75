# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and distances between rows.

MPSGraph computes products wrongly with rows or columns beyond 2^15 before macOS 14.4 (pytorch#117549), and on
M1 and M2 with sums of 32,767 or more products if the result has 16 or more rows and columns (pytorch#195163).
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import AddmmT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import rank_of
from delegatec.edge.nodes import dtype_of, shape_of

_LONGEST: Final = 32766
_TILE: Final = 16


def _matmul(b: GraphBuilder, node: Node) -> None:
    first, second = (operand(b, each) for each in list(bind(node).values())[:2])
    (first @ second).bind(node)


def _with_vector(b: GraphBuilder, node: Node) -> None:
    """Multiplies a matrix or a row by a column."""
    first, second = (operand(b, each) for each in bind(node).values())
    rows = first if len(first.shape) == 2 else first.view(1, *first.shape)
    (rows @ second.view(*second.shape, 1)).view(*shape_of(node)).bind(node)


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    first, second = operand(b, bound["mat1"]), operand(b, bound["mat2"])
    if bound["alpha"] == 0:  # ATen ignores the matrices then.
        if bound["beta"] == 0:
            full(b, shape_of(node), 0, dtype).bind(node)
            return
        bias = operand(b, bound["self"])
        bias = bias.view(*(1,) * (2 - len(bias.shape)), *bias.shape) * bound["beta"]
        bias.expand(*shape_of(node)).bind(node)
        return
    if bound["beta"] == 0:  # ATen ignores the bias then, NaN and infinities included; the runtime does not.
        product = first @ second
        (product if bound["alpha"] == 1 else product * bound["alpha"]).bind(node)
        return
    alpha, beta = (b.number(bound[name], dtype) for name in ("alpha", "beta"))
    _biased(operand(b, bound["self"]), first, second, beta, alpha).bind(node)


def _biased(
    bias: Expression, first: Expression, second: Expression, beta: float = 1.0, alpha: float = 1.0
) -> Expression:
    out = first.builder.temporary((first.shape[0], second.shape[1]), first.dtype)
    table = AddmmT(bias.id, first.id, second.id, out, beta=beta, alpha=alpha)
    first.builder.emit(Operation.Addmm, table)
    return Expression(first.builder, out)


def _linear(b: GraphBuilder, node: Node) -> None:
    """Computes input @ weight.T + bias; merges all but the last dimension of the input."""
    bound = bind(node)
    x, weight = operand(b, bound["input"]), operand(b, bound["weight"]).permute(1, 0)
    flat = x.view(math.prod(x.shape[:-1]), x.shape[-1])
    product = flat @ weight if bound["bias"] is None else _biased(operand(b, bound["bias"]), flat, weight)
    product.view(*shape_of(node)).bind(node)


def _long_sums(node: Node, _: object) -> str | None:
    bound, result = bind(node), shape_of(node)
    first: Any = bound.get("mat1", bound.get("input", bound.get("self")))
    length = shape_of(first)[-1]
    rows = math.prod(result[:-1]) if node.target is torch.ops.aten.linear.default else result[-2]
    if length <= _LONGEST or min(rows, result[-1]) < _TILE:
        return None
    return f"{length} products are summed, for {rows} rows and {result[-1]} columns"


_VECTOR_RULES: Final = (FLOAT_OPERANDS, SAME_DTYPES)
_RULES: Final = (
    *_VECTOR_RULES,
    Constraint(
        "size",
        "At most 32,766 products are summed, or the result has fewer than 16 rows or columns: beyond that "
        "MPSGraph reads past the ends of both matrices on M1 and M2.",
        _long_sums,
        "split the matrices, and add their products",
    ),
)
_WIDE_RESULT: Final = (
    "before macOS 14.4 and iOS 17.4, MPSGraph's results beyond 32,768 rows or columns are wrong"
)

ROWS: Final = (
    OperatorRow(
        overload("linear"),
        _linear,
        (*_RULES, rank_of("weight", (2,), "a single output does not have a dimension.")),
        note=f"the weight is not transposed in memory; {_WIDE_RESULT}",
        preserved=True,
    ),
    OperatorRow(overload("mm"), _matmul, _RULES, note=_WIDE_RESULT),
    OperatorRow(overload("bmm"), _matmul, _RULES, note=_WIDE_RESULT),
    OperatorRow(
        overload("addmm"),
        _addmm,
        _RULES,
        note=f"without the bias if beta is 0, without the product if alpha is; {_WIDE_RESULT}",
    ),
    OperatorRow(overload("mv"), _with_vector, _VECTOR_RULES, preserved=True),
    OperatorRow(overload("dot"), _with_vector, _VECTOR_RULES, preserved=True),
)
