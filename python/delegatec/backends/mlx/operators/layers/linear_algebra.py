# SPDX-License-Identifier: Apache-2.0
"""Matrix products. The format has one node for all of them, which adds a bias if there is one."""

from __future__ import annotations

from typing import Final

from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import transposed
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.operators.quantized.weights import product, quantized_matrix
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import rank_of


def _matmul(b: GraphBuilder, node: Node) -> None:
    first, second = list(bind(node).values())[:2]
    if quantized := quantized_matrix(b, second):
        b.alias(node, product(b, node, b.of(first), *quantized))
        return
    b.emit("Addmm", mat1=b.of(first), mat2=b.of(second), out=b.result(node))


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    is_plain = bound["alpha"] == bound["beta"] == 1
    if is_plain and (quantized := quantized_matrix(b, bound["mat2"])):
        _with_bias(b, node, product(b, node, b.of(bound["mat1"]), *quantized), bound["self"])
        return
    first, second, bias = (b.of(bound[name]) for name in ("mat1", "mat2", "self"))
    factors = {name: float(bound[name]) for name in ("alpha", "beta")}
    b.emit("Addmm", mat1=first, mat2=second, out=b.result(node), bias=bias, **factors)


def _linear(b: GraphBuilder, node: Node) -> None:
    """The runtime transposes a constant weight when the delegate is loaded, without a copy."""
    bound = bind(node)
    weight: Node = bound["weight"]
    if quantized := quantized_matrix(b, weight):
        packed, is_transposed = quantized
        result = product(b, node, b.of(bound["input"]), packed, not is_transposed)
        _with_bias(b, node, result, bound["bias"])
        return
    if b.constant_value(weight) is not None:
        matrix: Array = b.permuted_when_loaded(weight, [1, 0])
    else:
        matrix = transposed(b, b.of(weight), [1, 0])
    bias = None if bound["bias"] is None else b.of(bound["bias"])
    b.emit("Addmm", mat1=b.of(bound["input"]), mat2=matrix, out=b.result(node), bias=bias)


def _with_bias(b: GraphBuilder, node: Node, result: Array, bias: Node | None) -> None:
    if bias is None:
        b.alias(node, result)
    else:
        b.emit("Add", a=result, b=b.of(bias), out=b.result(node))


def _ignored(node: Node, _: object) -> str | None:
    return next((f"{name} is 0" for name in ("alpha", "beta") if bind(node)[name] == 0), None)


_RULES: Final = (FLOAT_OPERANDS, SAME_DTYPES)

ROWS: Final = (
    operator_row(
        "linear",
        _linear,
        *_RULES,
        rank_of("weight", (2,), "a single output does not have a dimension."),
        rank_of("input", range(2, 17), "a product has rows."),
        preserved=True,
        note="a constant weight is transposed when the delegate is loaded",
    ),
    operator_row("mm", _matmul, *_RULES),
    operator_row("bmm", _matmul, *_RULES),
    operator_row(
        "addmm",
        _addmm,
        *_RULES,
        Constraint(
            "argument",
            "Neither factor is zero: ATen ignores the operand then, NaN and infinities included.",
            _ignored,
        ),
    ),
)
