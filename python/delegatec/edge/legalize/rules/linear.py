# SPDX-License-Identifier: Apache-2.0
"""Matrix products, such as `linear`, `matmul` and `addmm`."""

from __future__ import annotations

import math
from functools import reduce
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, broadcast, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite, RuleTable
from delegatec.edge.legalize.value import Value, full, value_of

aten = torch.ops.aten

# Products of int8 are at most 2 ** 14, and float32 has all integers up to 2 ** 24.
_EXACT_TERMS: Final = 2**10


# ---- normal form -----------------------------------------------------------------------------------------


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


def _matmul(builder: Builder, node: Node) -> Node | None:
    left, right = (value_of(builder, each) for each in bind(node).values())
    if left.rank < 2 or right.rank < 2:
        return None
    if right.rank > 2:
        return batched_matmul(left, right).node
    rows = left.view(math.prod(left.shape[:-1]), left.shape[-1])
    return (rows @ right).view(*left.shape[:-1], right.shape[1]).node


def batched_matmul(left: Value, right: Value) -> Value:
    """Computes `left @ right` of [*, M, K] and [*, K, N], whose leading dimensions broadcast."""
    batch = broadcast(left.shape[:-2], right.shape[:-2])
    if not batch:
        return left @ right
    first, second = (
        each.expand(*batch, *each.shape[-2:]).view(math.prod(batch), *each.shape[-2:])
        for each in (left, right)
    )
    return (first @ second).view(*batch, left.shape[-2], right.shape[-1])


def _with_vector(builder: Builder, node: Node) -> Node | None:
    """Multiplies a matrix or a row by a column; sums of integers have no kernel of a product."""
    left, right = (value_of(builder, each) for each in bind(node).values())
    if not left.dtype.is_floating_point:
        return None
    rows = left if left.rank == 2 else left.view(1, left.numel)
    return (rows @ right.view(right.numel, 1)).view(*shape_of(node)).node


def _int_mm(builder: Builder, node: Node) -> Node | None:
    """Multiplies int8 matrices in float32, which holds sums of up to `_EXACT_TERMS` products exactly."""
    left, right = (value_of(builder, each, torch.float32) for each in bind(node).values())
    terms = left.shape[1]
    if not isinstance(terms, int) or terms == 0:
        return None
    bounds = [(start, min(start + _EXACT_TERMS, terms)) for start in range(0, terms, _EXACT_TERMS)]
    parts = ((left.slice(1, *each) @ right.slice(0, *each)).to(torch.int32) for each in bounds)
    return reduce(Value.__add__, parts).node


# ---- by other products -----------------------------------------------------------------------------------


def addmm_by_mm(builder: Builder, node: Node) -> Node:
    """Computes beta self + alpha (mat1 mat2); ignores an operand whose factor is zero, as eager mode does."""
    bound, shape = bind(node), shape_of(node)
    first, second, term = (value_of(builder, bound[name]) for name in ("mat1", "mat2", "self"))
    product = _scaled(first @ second, bound["alpha"]) if bound["alpha"] != 0 else None
    if bound["beta"] == 0:
        return (full(builder, shape, 0, first.dtype) if product is None else product).node
    term = _scaled(term, bound["beta"])
    if product is not None:
        return (product + term).node
    return term.view(*(1,) * (2 - term.rank), *term.shape).expand(*shape).node


def _scaled(x: Value, factor: float) -> Value:
    return x if factor == 1 else x * factor


def _without_an_operand(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    return None if bound["alpha"] != 0 and bound["beta"] != 0 else addmm_by_mm(builder, node)


def _linear_by_mm(builder: Builder, node: Node) -> Node:
    """Multiplies rows by the transposed weight."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    rows = x.view(math.prod(x.shape[:-1]), x.shape[-1])
    matrix = weight.view(1, *weight.shape) if weight.rank == 1 else weight
    product = rows @ matrix.permute(1, 0)
    if bound["bias"] is not None:
        product = product + value_of(builder, bound["bias"])
    return product.view(*shape_of(node)).node


def _linear_of_rows(builder: Builder, node: Node) -> Node | None:
    """Flattens the dimensions before the last, if there are more than two."""
    bound = bind(node)
    x = value_of(builder, bound["input"])
    if x.rank <= 3:
        return None
    rows = x.view(math.prod(x.shape[:-1]), x.shape[-1])
    product = builder.call(aten.linear.default, rows.node, bound["weight"], bound["bias"])
    return Value(builder, product).view(*shape_of(node)).node


RULES: Final[RuleTable] = {
    aten._int_mm.default: _int_mm,
    aten.linear.default: _linear,
    aten.matmul.default: _matmul,
    **dict.fromkeys((aten.dot.default, aten.mv.default), _with_vector),
}

REWRITES: Final = (
    Rewrite(aten.addmm.default, _without_an_operand, note="without the operand whose factor is zero"),
)

ADDMM_BY_MM: Final = Rewrite(aten.addmm.default, addmm_by_mm, note="mm")
LINEAR_BY_MM: Final = Rewrite(aten.linear.default, _linear_by_mm, note="mm")
LINEAR_OF_ROWS: Final = Rewrite(aten.linear.default, _linear_of_rows, preserved=True)
