# SPDX-License-Identifier: Apache-2.0
"""Matrix products."""

from __future__ import annotations

import math
from typing import Final

from delegatec_schemas.mps_graph import AddmmT, BinaryT, Operation, PermuteT, ViewT
from torch.fx import Node

from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import dtype_of, shape_of
from delegatec.backends.mps.operators.family import Lower, family, overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, rank_of, same_dtypes
from delegatec.edge.arguments import bind


def _matmul(operation: int) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        first, second = (b.of(operand) for operand in list(bind(node).values())[:2])
        b.emit(operation, BinaryT(input1Id=first, input2Id=second, outputId=b.result(node)))

    return lower


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound, dtype = bind(node), dtype_of(node)
    alpha, beta = (b.number(bound[name], dtype) for name in ("alpha", "beta"))
    first, second = b.of(bound["mat1"]), b.of(bound["mat2"])
    if beta == 0:  # ATen ignores the bias then, NaN and infinities included; the runtime would multiply them.
        product = b.result(node) if alpha == 1 else b.temporary(shape_of(node), dtype)
        b.emit(Operation.MatMul, BinaryT(input1Id=first, input2Id=second, outputId=product))
        if alpha != 1:
            factor = b.scalar(alpha, dtype)
            b.emit(Operation.Mul, BinaryT(input1Id=product, input2Id=factor, outputId=b.result(node)))
        return
    table = AddmmT(
        input1Id=b.of(bound["self"]),
        input2Id=first,
        input3Id=second,
        outputId=b.result(node),
        beta=beta,
        alpha=alpha,
    )
    b.emit(Operation.Addmm, table)


def _linear(b: GraphBuilder, node: Node) -> None:
    """input @ weight.T + bias, with all but the last dimension of the input as one."""
    bound, dtype = bind(node), dtype_of(node)
    source, weight = shape_of(bound["input"]), shape_of(bound["weight"])
    rows = math.prod(source[:-1])
    transposed = b.temporary(weight[::-1], dtype)
    b.emit(
        Operation.Permute,
        PermuteT(input1Id=b.of(bound["weight"]), outputId=transposed, numDims=2, perm=[1, 0]),
    )
    flat = b.of(bound["input"])
    if len(source) != 2:
        flat = b.temporary((rows, source[-1]), dtype)
        shape = [rows, source[-1]]
        b.emit(Operation.View, ViewT(b.of(bound["input"]), flat, numDims=2, shape=shape))
    out = b.result(node) if len(source) == 2 else b.temporary((rows, weight[0]), dtype)
    if bound["bias"] is None:
        b.emit(Operation.MatMul, BinaryT(input1Id=flat, input2Id=transposed, outputId=out))
    else:
        bias = b.of(bound["bias"])
        b.emit(Operation.Addmm, AddmmT(bias, flat, transposed, out, beta=1.0, alpha=1.0))
    if len(source) != 2:
        shape = list(shape_of(node))
        b.emit(Operation.View, ViewT(out, b.result(node), numDims=len(shape), shape=shape))


_RULES: Final = (FLOAT_OPERANDS, same_dtypes())

ROWS: Final = (
    OperatorRow(
        overload("linear"),
        ("Permute", "View", "Addmm", "MatMul"),
        _linear,
        (*_RULES, rank_of("weight", (2,), "a single output has no dimension of its own.")),
        note="reads the weight as it lies",
        whole=True,
    ),
    *family({"mm": "MatMul", "bmm": "MatMul"}, _matmul, *_RULES),
    OperatorRow(
        overload("addmm"), ("Addmm", "MatMul", "Mul"), _addmm, _RULES, note="without the bias if beta is 0"
    ),
)
