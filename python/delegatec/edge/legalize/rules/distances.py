# SPDX-License-Identifier: Apache-2.0
"""Distances between rows, in float32: squares and sums may overflow float16 where their root does not.

And the cosine similarity of vectors.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes, rank_of, same_dtypes
from delegatec.edge.legalize.rule import FunctionTable, Rewrite
from delegatec.edge.legalize.rules.reductions import amax
from delegatec.edge.legalize.value import Value, table, value_of

aten = torch.ops.aten


def _norm(difference: Value, p: float) -> Value:
    """Returns the p-norm along the last dimension."""
    last, size = [difference.rank - 1], difference.abs()
    if p == 0:
        # NaN remains NaN; the others become 0 or 1.
        return size.isnan().where(size, size.ne(0.0).to(size.dtype)).sum(last)
    if p == 1:
        return size.sum(last)
    if p == 2:
        return (size * size).sum(last).sqrt()
    if p == math.inf:
        return amax(size, last)
    return (size**p).sum(last) ** (1 / p)


def _cdist(builder: Builder, node: Node) -> Node:
    """Computes the distances of all pairs of rows; leading dimensions broadcast."""
    bound, dtype = bind(node), dtype_of(node)
    first, second = (value_of(builder, bound[name], torch.float32) for name in ("x1", "x2"))
    *batch, rows, width = first.shape
    *other_batch, others, _ = second.shape
    if batch == other_batch:
        batch = other_batch = [math.prod(batch)]
    difference = first.view(*batch, rows, 1, width) - second.view(*other_batch, 1, others, width)
    if bound["p"] == math.inf:
        # eager mode drops NaN
        difference = difference.isnan().where(0.0, difference)
    return _norm(difference, bound["p"]).view(*shape_of(node)).to(dtype).node


def _pdist(builder: Builder, node: Node) -> Node:
    bound, dtype = bind(node), dtype_of(node)
    x = value_of(builder, bound["self"], torch.float32)
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, dtype=torch.int32)
    difference = x.index_select(0, table(builder, first)) - x.index_select(0, table(builder, second))
    return _norm(difference, bound["p"]).to(dtype).node


_CONSTRAINTS: Final = (
    operand_dtypes((torch.float32, torch.float16), "it is computed in floating point.", "convert to float32"),
    same_dtypes("rows are subtracted."),
)

REWRITES: Final = tuple(
    Rewrite(
        target, rule, (*_CONSTRAINTS, rank_of(first, range(2, 17), "it is a batch of matrices.")), note=note
    )
    for target, rule, first, note in (
        (aten._cdist_forward.default, _cdist, "x1", "in float32"),
        (aten._pdist_forward.default, _pdist, "self", "in float32"),
    )
)


def _cosine_similarity(x: Tensor, y: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    # in which 0-d tensors count
    dtype = torch.promote_types(x.dtype, y.dtype)
    # a vector of one element is broadcast before its norm is computed
    x, y = torch.broadcast_tensors(x.to(dtype), y.to(dtype))  # type: ignore[no-untyped-call]
    norms = [torch.linalg.vector_norm(each, 2, [dim], keepdim=True).clamp(min=eps) for each in (x, y)]
    similarity: Tensor = ((x / norms[0]) * (y / norms[1])).sum(dim)
    return similarity


FUNCTIONS: Final[FunctionTable] = {aten.cosine_similarity.default: _cosine_similarity}
