# SPDX-License-Identifier: Apache-2.0
"""Matrix products. The format has one node for all of them, which adds a bias if there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch.fx import Node

from delegatec.backends.mlx.building.graph_builder import GraphBuilder
from delegatec.backends.mlx.building.moves import reshaped, transposed
from delegatec.backends.mlx.building.values import Array
from delegatec.backends.mlx.operators.quantized.weights import (
    Quantized,
    product,
    quantized_matrix,
    quantized_weight,
)
from delegatec.backends.mlx.operators.row import Constraint, operator_row
from delegatec.backends.mlx.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.legalize.constraints import rank_of
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

_RANK: Final = 3
"""Of the operands of a `bmm`."""


def _matmul(b: GraphBuilder, node: Node) -> None:
    first, second = list(bind(node).values())[:2]
    if quantized := quantized_matrix(b, second):
        b.alias(node, _quantized_product(b, node, b.of(first), *quantized))
        return
    b.emit("Addmm", mat1=b.of(first), mat2=b.of(second), out=b.result(node))


def _bmm(b: GraphBuilder, node: Node) -> None:
    """Multiplies matrices that indices choose, such as those of experts, without copies of them."""
    operands = [bind(node)[name] for name in ("self", "mat2")]
    first, second = (_chosen(b, each) for each in operands)
    if _gather_quantized(b, node, operands, first, second):
        return
    if first is None and second is None:
        _matmul(b, node)
        return
    (left, lhs), (right, rhs) = (
        (b.of(each), None) if found is None else (found.array(b), found.indices)
        for each, found in zip(operands, (first, second), strict=True)
    )
    b.emit("GatherMm", a=left, b=right, lhsIndices=lhs, rhsIndices=rhs, out=b.result(node))


def _gather_quantized(
    b: GraphBuilder, node: Node, operands: list[Node], first: _Chosen | None, second: _Chosen | None
) -> bool:
    """Emits a product with quantized matrices that indices choose; returns whether it is one."""
    left, right = operands
    batch, rows, columns = node.meta["val"].shape
    if second is not None and (weight := quantized_weight(b, second.table)):
        x, lhs = (b.of(left), None) if first is None else (first.array(b), first.indices)
        fields = {"lhsIndices": lhs, "rhsIndices": second.indices, "transpose": second.is_transposed}
        b.alias(node, product(b, (batch, rows, columns), x, weight, "GatherQmm", **fields))
        return True
    if first is None or second is not None or sizes_key([columns]) != (1,):
        return False
    weight = quantized_weight(b, first.table)
    if weight is None:
        return False
    # a column is a row of the transposed product
    x = reshaped(b, b.of(right), (batch, 1, shape_of(right)[1]))
    fields = {"lhsIndices": None, "rhsIndices": first.indices, "transpose": not first.is_transposed}
    found = product(b, (batch, 1, rows), x, weight, "GatherQmm", **fields)
    b.alias(node, reshaped(b, found, (batch, rows, 1)))
    return True


@dataclass(frozen=True)
class _Chosen:
    """Matrices that indices choose.

    Attributes:
        table: all matrices.
        indices: those of the chosen ones.
        is_transposed: whether each is transposed.
    """

    table: Node
    indices: Array
    is_transposed: bool

    def array(self, b: GraphBuilder) -> Array:
        """Returns all matrices, transposed if they are."""
        return _transposed(b, self.table) if self.is_transposed else b.of(self.table)


def _chosen(b: GraphBuilder, node: Node) -> _Chosen | None:
    """Returns the matrices of which a value has some, and their indices; None for others."""
    is_transposed = node.target is aten.permute.default and list(bind(node)["dims"]) == [0, 2, 1]
    gather: Node = bind(node)["self"] if is_transposed else node
    index = _index(gather)
    # negative ones count from the end in ATen only
    if index is None or len(shape_of(index)) != 1 or b.facts.of(index).low < 0:
        return None
    table: Node = bind(gather)["self"]
    return _Chosen(table, b.of(index), is_transposed) if len(shape_of(table)) == _RANK else None


def _index(node: Node) -> Node | None:
    """Returns the indices with which a call gathers along the first dimension."""
    if node.target is aten.index_select.default and bind(node)["dim"] in (0, -_RANK):
        index: Node = bind(node)["index"]
        return index
    if node.target is not aten.index.Tensor or len(bind(node)["indices"]) != 1:
        return None
    (only,) = bind(node)["indices"]
    return only if isinstance(only, Node) and dtype_of(only) != torch.bool else None


def _transposed(b: GraphBuilder, matrices: Node) -> Array:
    if b.constant_value(matrices) is not None:
        return b.permuted_when_loaded(matrices, [0, 2, 1])
    return transposed(b, b.of(matrices), [0, 2, 1])


def _addmm(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    is_plain = bound["alpha"] == bound["beta"] == 1
    if is_plain and (quantized := quantized_matrix(b, bound["mat2"])):
        _with_bias(b, node, _quantized_product(b, node, b.of(bound["mat1"]), *quantized), bound["self"])
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
        result = _quantized_product(b, node, b.of(bound["input"]), packed, not is_transposed)
        _with_bias(b, node, result, bound["bias"])
        return
    if b.constant_value(weight) is not None:
        matrix: Array = b.permuted_when_loaded(weight, [1, 0])
    else:
        matrix = transposed(b, b.of(weight), [1, 0])
    bias = None if bound["bias"] is None else b.of(bound["bias"])
    b.emit("Addmm", mat1=b.of(bound["input"]), mat2=matrix, out=b.result(node), bias=bias)


def _quantized_product(
    b: GraphBuilder, node: Node, x: Array, weight: Quantized, is_transposed: bool
) -> Array:
    return product(b, shape_of(node), x, weight, "QuantizedMatmul", transpose=is_transposed)


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
    operator_row("bmm", _bmm, *_RULES, note="of matrices that indices choose: without copies of them"),
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
