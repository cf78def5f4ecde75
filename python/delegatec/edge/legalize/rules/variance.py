# SPDX-License-Identifier: Apache-2.0
"""Variance, standard deviation and the Euclidean norm."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import RuleTable
from delegatec.edge.legalize.value import value_of
from delegatec.edge.symbols import smallest

aten = torch.ops.aten


def _moments(builder: Builder, node: Node) -> Node | list[Node] | None:
    """Computes the variance as the mean of squared deviations; and the mean, if requested."""
    bound = bind(node)
    x = value_of(builder, bound["self"])
    dtype, x = x.dtype, x.widened()  # a square may exceed float16 where the variance does not
    dims = [dim % x.rank for dim in bound["dim"] or range(x.rank)] if x.rank else []
    if not dims:
        return None
    count, correction = math.prod(x.shape[dim] for dim in dims), correction_of(node)
    if smallest(count) <= correction:
        return None
    mean = x.mean(dims, keepdim=True)
    centered = x - mean
    variance = (centered * centered).mean(dims, bound["keepdim"])
    if correction:
        variance = variance * (count / (count - correction))
    variance = variance.to(dtype)
    if node.target is not aten.var_mean.correction:
        return variance.node
    mean = mean.to(dtype)
    return [
        variance.node,
        mean.node if bound["keepdim"] else builder.call(aten.squeeze.dims, mean.node, dims),
    ]


def correction_of(node: Node) -> float:
    """Returns the correction that a variance subtracts from the number of elements."""
    bound = bind(node)
    if "unbiased" in bound:
        return int(bound["unbiased"])
    return 1 if bound["correction"] is None else bound["correction"]


def _deviation(b: Builder, node: Node) -> Node:
    """Computes the root of the variance, which may exceed float16 where the root does not."""
    a = bind(node)
    x = value_of(b, a["self"])
    wide = x.widened()
    val = b.empty(node.meta["val"].shape, wide.dtype)
    correction = int(a["unbiased"]) if "unbiased" in a else a["correction"]
    options = {"correction": correction, "keepdim": a["keepdim"]}
    variance = b.call(aten.var.correction, wide.node, a["dim"], val=val, **options)
    return value_of(b, b.call(aten.sqrt.default, variance, val=val)).to(x.dtype).node


def _vector_norm(builder: Builder, node: Node) -> Node | None:
    bound = bind(node)
    if bound["ord"] != 2 or bound["dtype"] is not None:
        return None
    x = value_of(builder, bound["self"])
    dims = list(range(x.rank)) if bound["dim"] is None else list(bound["dim"])
    # the square of a norm may exceed float16 where the norm does not
    wide = x.widened()
    total = builder.call(aten.sum.dim_IntList, (wide * wide).node, dims, bound["keepdim"])
    return value_of(builder, builder.call(aten.sqrt.default, total), x.dtype).node


RULES: Final[RuleTable] = {
    aten.linalg_vector_norm.default: _vector_norm,
    **dict.fromkeys((aten.std.correction, aten.std.dim), _deviation),
    **dict.fromkeys((aten.var.correction, aten.var.dim, aten.var_mean.correction), _moments),
}
