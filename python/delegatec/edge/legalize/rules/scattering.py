# SPDX-License-Identifier: Apache-2.0
"""Scatters and histograms.

The kernels add (`scatter_add`) and overwrite (`scatter`, `index_put`). Other reductions compare every
position with every index, in memory; with more than `_MOST_PAIRS` pairs, the operator is rejected.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import FunctionTable
from delegatec.edge.legalize.rules.dynamic import at_most
from delegatec.edge.symbols import sizes_key

aten = torch.ops.aten

# Pairs of a position and an element that a dense reduction may have: 16 MiB of float32.
_MOST_PAIRS: Final = 1 << 22


def _neutral(dtype: torch.dtype, reduce: str) -> float:
    """Returns the neutral element."""
    if reduce == "prod":
        return 1
    if dtype is torch.bool:
        return reduce == "amin"
    if dtype.is_floating_point:
        return math.inf if reduce == "amin" else -math.inf
    return torch.iinfo(dtype).max if reduce == "amin" else torch.iinfo(dtype).min


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if x.dim() == 0:
        x, index, src = x.reshape(1), index.reshape(-1), src.reshape(-1)
        return _scatter_reduce(x, 0, index, src, reduce, include_self=include_self).reshape([])
    if any(isinstance(size, int) and size == 0 for size in index.shape):
        return x.clone()
    dim = dim % x.dim()
    src = src[tuple(slice(size) for size in index.shape)]
    if reduce in ("sum", "mean"):
        start = x if include_self else x.scatter(dim, index, 0)
        total = start.scatter_add(dim, index, src)
        if reduce == "sum":
            return total
        own = torch.ones_like(x) if include_self else torch.ones_like(x).scatter(dim, index, 0)
        count = own.scatter_add(dim, index, torch.ones_like(src)).clamp(min=1)
        return total / count if x.is_floating_point() else torch.div(total, count, rounding_mode="floor")
    if not at_most([x.shape[dim], *index.shape], _MOST_PAIRS):
        return NotImplemented
    return _dense(x, dim, index, src, reduce, include_self)


def _dense(x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    # an index may have smaller dimensions than `x`; elements beyond it stay
    reached = [x.shape[d] if d == dim else size for d, size in enumerate(index.shape)]
    inner = x[tuple(slice(size) for size in reached)]
    place = torch.arange(x.shape[dim]).view([-1] + [1] * (x.dim() - dim))
    hit = index.unsqueeze(dim) == place
    chosen = torch.where(hit, src.unsqueeze(dim), _neutral(x.dtype, reduce)).to(x.dtype)
    if reduce == "prod":
        found = chosen.prod(dim + 1)
    else:
        found = chosen.amax(dim + 1) if reduce == "amax" else chosen.amin(dim + 1)
    if include_self:
        merge = {"prod": torch.mul, "amax": torch.maximum, "amin": torch.minimum}[reduce]
        found = merge(found, inner)
    else:
        found = torch.where(hit.any(dim + 1), found, inner)
    result = found.to(x.dtype)
    for d in range(x.dim()):
        if sizes_key([reached[d]]) != sizes_key([x.shape[d]]):
            rest = x[tuple(slice(size) for size in reached[:d])].narrow(
                d, reached[d], x.shape[d] - reached[d]
            )
            result = torch.cat(
                [result, rest[(slice(None),) * (d + 1) + tuple(map(slice, result.shape[d + 1 :]))]], d
            )
    return result


def _scatter_with(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str) -> Any:
    """Computes the older form of scatter_reduce: reduce is "add" or "multiply", src may be a number."""
    if not isinstance(src, Tensor):
        src = torch.full(index.shape, src, dtype=x.dtype)
    return _scatter_reduce(x, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


def _index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if x.dim() == 0:
        return _index_reduce(
            x.reshape(1), 0, index, source.reshape(-1), reduce, include_self=include_self
        ).reshape([])
    dim = dim % x.dim()
    source = source if source.dim() else source.reshape([1] * x.dim())
    places = index.reshape([-1] + [1] * (x.dim() - 1 - dim)).expand(source.shape)
    return _scatter_reduce(x, dim, places, source, reduce, include_self=include_self)


def _index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Writes a number or 0-d tensor to some positions of one dimension."""
    if not isinstance(value, Tensor):
        value = torch.full([], value, dtype=x.dtype)
    if x.dim() == 0:
        return torch.where(
            (index.reshape(-1) == 0).any() | (index.reshape(-1) == -1).any(), value.to(x.dtype), x
        )
    indices: list[Tensor | None] = [None] * (dim % x.dim())
    result: Tensor = aten.index_put.default(x, [*indices, index.reshape(-1)], value.to(x.dtype))
    return result


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes to positions in row-major order."""
    flat = aten.index_put.default(x.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    result: Tensor = flat.reshape(x.shape)
    return result


def _diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    rank = x.dim()
    dim1, dim2 = dim1 % rank, dim2 % rank
    length = src.shape[-1]
    if not all(isinstance(size, int) for size in x.shape) or length == 0:
        return NotImplemented
    others = [dim for dim in range(rank) if dim not in (dim1, dim2)]
    moved = x.permute([dim1, dim2, *others])
    at = torch.arange(length)
    rows, columns = at + max(-offset, 0), at + max(offset, 0)
    values = src.to(x.dtype).permute([-1 % src.dim(), *range(src.dim() - 1)])
    written = aten.index_put.default(moved, [rows, columns], values)
    return torch.movedim(written, [*range(rank)], [dim1, dim2, *others])


def _histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """Counts the elements in each of `bins` ranges of equal width."""
    flat = x.reshape(-1)
    if not at_most([flat.shape[0], bins], _MOST_PAIRS):
        return NotImplemented
    if isinstance(flat.shape[0], int) and not flat.shape[0]:
        return torch.zeros([bins], dtype=x.dtype)
    low, high = torch.full([], min, dtype=x.dtype), torch.full([], max, dtype=x.dtype)
    if min == max == 0:
        low, high = flat.amin(), flat.amax()
    equal = low == high
    low, high = torch.where(equal, low - 1, low), torch.where(equal, high + 1, high)
    # in torch's order of operations, whose rounding decides at the borders
    at = ((flat - low) * bins / (high - low)).floor().to(torch.int64).clamp(max=bins - 1)
    inside = (flat >= low) & (flat <= high)
    return ((at.unsqueeze(1) == torch.arange(bins)) & inside.unsqueeze(1)).to(x.dtype).sum(0)


FUNCTIONS: FunctionTable = {
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.histc.default: _histc,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.index_reduce.default: _index_reduce,
    aten.put.default: _put,
    aten.scatter.reduce: _scatter_with,
    aten.scatter.value_reduce: _scatter_with,
    aten.scatter_reduce.two: _scatter_reduce,
}
