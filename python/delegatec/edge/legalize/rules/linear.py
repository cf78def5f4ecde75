# SPDX-License-Identifier: Apache-2.0
"""Matrix products, such as `linear` and `matmul`, by mm, bmm and addmm."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.rules.batched_matmul import batched_matmul
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

# Products of int8 are at most 2 ** 14, and float32 has all integers up to 2 ** 24.
_EXACT_TERMS: Final = 2**10


def _linear(b: Builder, node: Node) -> Node:
    arguments = bind(node)
    x, weight, bias = arguments["input"], arguments["weight"], arguments["bias"]
    *outer, width = shape_of(x)
    if len(shape_of(weight)) == 1:
        # a dot product per row, and a scalar bias
        weight = b.call(aten.unsqueeze.default, weight, 0)
        bias = None if bias is None else b.call(aten.view.default, bias, [1])
        product = b.call(aten.linear.default, x, weight, bias)
        return b.call(aten.squeeze.dims, product, [len(outer)], val=node.meta["val"])
    flat = x if len(outer) == 1 else b.call(aten.view.default, x, [math.prod(outer), width])
    transposed = b.call(aten.permute.default, weight, [1, 0])
    if bias is None:
        product = b.call(aten.mm.default, flat, transposed)
    else:
        product = b.call(aten.addmm.default, bias, flat, transposed)
    return product if len(outer) == 1 else b.call(aten.view.default, product, [*outer, shape_of(weight)[0]])


def _matmul(b: Builder, node: Node) -> Node | None:
    left, right = node.args[0], node.args[1]
    assert isinstance(left, Node) and isinstance(right, Node)
    left_rank, right_rank = len(shape_of(left)), len(shape_of(right))
    if left_rank < 2 or right_rank < 2:
        return None
    if left_rank == right_rank == 2:
        return b.call(aten.mm.default, left, right)
    if right_rank == 2:
        *outer, width = shape_of(left)
        flat = b.call(aten.view.default, left, [math.prod(outer), width])
        return b.call(aten.view.default, b.call(aten.mm.default, flat, right), [*outer, shape_of(right)[1]])
    return batched_matmul(b, left, right)


def _with_vector(b: Builder, node: Node) -> Node | None:
    """Multiplies a matrix or a row by a column; sums of integers have no kernel of a product."""
    left, right = node.args
    assert isinstance(left, Node) and isinstance(right, Node)
    if not dtype_of(node).is_floating_point:
        return None
    rows = left if len(shape_of(left)) == 2 else b.call(aten.view.default, left, [1, *shape_of(left)])
    column = b.call(aten.view.default, right, [*shape_of(right), 1])
    return b.call(aten.view.default, b.call(aten.mm.default, rows, column), list(shape_of(node)))


def _ignoring(builder: Builder, node: Node) -> Node | None:
    """Ignores an operand whose factor is zero, NaN and infinities included."""
    bound = bind(node)
    first, second = (value_of(builder, bound[name]) for name in ("mat1", "mat2"))
    alpha, beta = bound["alpha"], bound["beta"]
    if alpha != 0 and beta != 0:
        return None
    if alpha != 0:
        product = first @ second
        return (product if alpha == 1 else product * alpha).node
    if beta == 0:
        return full(builder, shape_of(node), 0, first.dtype).node
    bias = value_of(builder, bound["self"])
    aligned = bias.view(*(1,) * (2 - bias.rank), *bias.shape)
    scaled: Value = aligned * beta
    return scaled.expand(*shape_of(node)).node


def _int_mm(b: Builder, node: Node) -> Node | None:
    """Multiplies int8 matrices in float32, which holds sums of up to `_EXACT_TERMS` products exactly."""
    x, y = node.args
    assert isinstance(x, Node) and isinstance(y, Node)
    terms = shape_of(x)[1]
    if not isinstance(terms, int) or terms == 0:
        return None
    left, right = (b.call(aten._to_copy.default, each, dtype=torch.float32) for each in (x, y))
    total = None
    for start in range(0, terms, _EXACT_TERMS):
        pieces = [left, right]
        if terms > _EXACT_TERMS:
            end = min(start + _EXACT_TERMS, terms)
            pieces = [
                b.call(aten.slice.Tensor, each, dim, start, end) for each, dim in ((left, 1), (right, 0))
            ]
        product = b.call(aten._to_copy.default, b.call(aten.mm.default, *pieces), dtype=torch.int32)
        total = product if total is None else b.call(aten.add.Tensor, total, product)
    return total


RULES: RuleTable = {
    aten._int_mm.default: _int_mm,
    aten.linear.default: _linear,
    aten.matmul.default: _matmul,
    **dict.fromkeys((aten.dot.default, aten.mv.default), _with_vector),
}

REWRITES: Final = (Rewrite(aten.addmm.default, _ignoring, note="without the operand whose factor is zero"),)
