# SPDX-License-Identifier: Apache-2.0
"""Matrix products.

MPSGraph computes products wrongly with rows or columns beyond 2^15 before macOS 14.4 (pytorch#117549), and on
M1 and M2 with sums of 32,767 or more products if the result has 16 or more rows and columns (pytorch#195163).
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import AddmmT, BinaryT, Operation, PermuteT
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.operations import reshaped
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.constraints import rank_of

_LONGEST: Final = 32766
_TILE: Final = 16


def _matmul(b: GraphBuilder, node: Node) -> None:
    first, second = list(bind(node).values())[:2]
    b.emit(Operation.MatMul, BinaryT(b.of(first), b.of(second), b.result(node)))


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    first, second, bias = (b.of(bound[name]) for name in ("mat1", "mat2", "self"))
    alpha, beta = (b.representable(bound[name], dtype_of(node)) for name in ("alpha", "beta"))
    b.emit(Operation.Addmm, AddmmT(bias, first, second, b.result(node), beta=beta, alpha=alpha))


def _linear(b: GraphBuilder, node: Node) -> None:
    """Computes input @ weight.T + bias; merges all but the last dimension of the input."""
    bound, dtype = bind(node), dtype_of(node)
    outputs, length = shape_of(bound["weight"])
    weight = b.temporary([length, outputs], dtype)
    permutation = PermuteT(b.of(bound["weight"]), weight, numDims=2, perm=[1, 0])
    b.emit(Operation.Permute, permutation)
    rows = math.prod(shape_of(node)[:-1])
    flat = reshaped(b, b.of(bound["input"]), [rows, length])
    out = b.temporary([rows, outputs], dtype)
    if bound["bias"] is None:
        b.emit(Operation.MatMul, BinaryT(flat, weight, out))
    else:
        b.emit(Operation.Addmm, AddmmT(b.of(bound["bias"]), flat, weight, out, beta=1.0, alpha=1.0))
    b.alias(node, reshaped(b, out, shape_of(node)))


def _ignored(node: Node, _: object) -> str | None:
    return next((f"{name} is 0" for name in ("alpha", "beta") if bind(node)[name] == 0), None)


def _long_sums(node: Node, _: object) -> str | None:
    bound, result = bind(node), shape_of(node)
    first: Any = bound.get("mat1", bound.get("input", bound.get("self")))
    length = shape_of(first)[-1]
    rows = math.prod(result[:-1]) if node.target is torch.ops.aten.linear.default else result[-2]
    if length <= _LONGEST or min(rows, result[-1]) < _TILE:
        return None
    return f"{length} products are summed, for {rows} rows and {result[-1]} columns"


_RULES: Final = (
    FLOAT_OPERANDS,
    SAME_DTYPES,
    Constraint(
        "size",
        "At most 32,766 products are summed, or the result has fewer than 16 rows or columns: beyond that "
        "MPSGraph reads past the ends of both matrices on M1 and M2.",
        _long_sums,
        "split the matrices, and add their products",
    ),
)
_WIDE_RESULT: Final = "before macOS 14.4 and iOS 17.4, results beyond 32,768 rows or columns are wrong"

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
        (
            *_RULES,
            Constraint(
                "argument",
                "Neither factor is zero: ATen ignores the operand then, NaN and infinities included.",
                _ignored,
            ),
        ),
        note=_WIDE_RESULT,
    ),
)
