# SPDX-License-Identifier: Apache-2.0
"""Matrix products, and distances between rows.

MPSGraph computes products wrongly with rows or columns beyond 2^15 before macOS 14.4 (pytorch#117549), and on
M1 and M2 with sums of 32,767 products and more where the result has 16 rows and columns (pytorch#195163).
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import AddmmT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.folding import amax, sum_of
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import full, operand, table
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
    """A matrix or a row, times a column."""
    first, second = (operand(b, each) for each in bind(node).values())
    rows = first if len(first.shape) == 2 else first.view(1, *first.shape)
    (rows @ second.view(*second.shape, 1)).view(*shape_of(node)).bind(node)


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    first, second = operand(b, bound["mat1"]), operand(b, bound["mat2"])
    if bound["alpha"] == 0:  # ATen does not read the matrices then.
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
    """input @ weight.T + bias, with all but the last dimension of the input as one."""
    bound = bind(node)
    x, weight = operand(b, bound["input"]), operand(b, bound["weight"]).permute(1, 0)
    flat = x.view(math.prod(x.shape[:-1]), x.shape[-1])
    product = flat @ weight if bound["bias"] is None else _biased(operand(b, bound["bias"]), flat, weight)
    product.view(*shape_of(node)).bind(node)


def _norm(difference: Expression, p: float) -> Expression:
    """The p-norm of the last dimension."""
    last = [len(difference.shape) - 1]
    size = difference.unary(Operation.Abs)
    if p == 0:
        return sum_of(size.compare(Operation.Ne, 0).to(size.dtype), last)
    if p == 1:
        return sum_of(size, last)
    if p == 2:
        return sum_of(size * size, last).unary(Operation.Sqrt)
    if p == math.inf:
        return amax(size, last)
    return sum_of(size**p, last) ** (1 / p)


def _cdist(b: GraphBuilder, node: Node) -> None:
    """Each row beside each; the dimensions before them broadcast."""
    bound, dtype = bind(node), dtype_of(node)
    first, second = (operand(b, bound[name]).to(torch.float32) for name in ("x1", "x2"))
    *batch, rows, width = first.shape
    *other_batch, others, _ = second.shape
    if batch == other_batch:
        batch = other_batch = [math.prod(batch)]
    difference = first.view(*batch, rows, 1, width) - second.view(*other_batch, 1, others, width)
    _norm(difference, bound["p"]).view(*shape_of(node)).to(dtype).bind(node)


def _pdist(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    x = operand(b, bound["self"]).to(torch.float32)
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    difference = x.index_select(0, table(b, first)) - x.index_select(0, table(b, second))
    _norm(difference, bound["p"]).to(dtype).bind(node)


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
        "split the matrices, and add the products of their parts",
    ),
)
_WIDE_RESULT: Final = "before macOS 14.4 and iOS 17.4 MPSGraph is wrong beyond 32,768 rows or columns"
_DISTANCE: Final = (
    *("Sub", "Abs", "Mul", "Ne", "Cast", "Pow", "Mean", "Sqrt"),
    *("Slice", "Neg", "Minimum", "Isnan", "Gt", "Full", "Where"),
)

ROWS: Final = (
    OperatorRow(
        overload("linear"),
        ("Permute", "View", "Addmm", "MatMul"),
        _linear,
        (*_RULES, rank_of("weight", (2,), "a single output has no dimension of its own.")),
        note=f"reads the weight as it lies; {_WIDE_RESULT}",
        preserved=True,
    ),
    OperatorRow(overload("mm"), ("MatMul",), _matmul, _RULES, note=_WIDE_RESULT),
    OperatorRow(overload("bmm"), ("MatMul",), _matmul, _RULES, note=_WIDE_RESULT),
    OperatorRow(
        overload("addmm"),
        ("Addmm", "MatMul", "Mul", "View", "Expand", "Full"),
        _addmm,
        _RULES,
        note=f"without the bias if beta is 0, without the product if alpha is; {_WIDE_RESULT}",
    ),
    OperatorRow(overload("mv"), ("View", "MatMul"), _with_vector, _VECTOR_RULES, preserved=True),
    OperatorRow(overload("dot"), ("View", "MatMul"), _with_vector, _VECTOR_RULES, preserved=True),
    *(
        OperatorRow(
            overload(name),
            (*_DISTANCE, *more),
            lower,
            (*_VECTOR_RULES, rank_of(first, range(2, 17), "it has rows.")),
            note="in float32: squares and sums leave the range of float16 where their roots do not",
        )
        for name, first, lower, more in (
            ("_cdist_forward", "x1", _cdist, ("View",)),
            ("_pdist_forward", "self", _pdist, ("IndexSelect",)),
        )
    ),
)
