# SPDX-License-Identifier: Apache-2.0
"""Sorting and order statistics by the only kernel that sorts: topk.

Results are those of torch on the CPU, which always sorts stably. The kernel of topk does not, so a second one
over distinct integers orders ties. NaN is greater than all other values, for torch and for the kernel.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from delegatec.edge.legalize.rule import FunctionTable
from delegatec.edge.legalize.rules.dynamic import at_most, padded
from delegatec.edge.symbols import smallest

aten = torch.ops.aten

# Values of these dtypes, times a size of up to 2^15, plus a position, fit in int32: delegates have no int64.
_SHORT = (torch.bool, torch.uint8, torch.int8, torch.int16)
_LONGEST = 2**15


def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim = dim % x.dim()
    index = _order(x, dim, descending)
    return torch.gather(x, dim, index), index


def _sort_stable(
    x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _sort(x, dim, descending)


def _order(x: Tensor, dim: int, descending: bool) -> Tensor:
    """Returns the sorted positions of the elements along `dim`."""
    size = x.shape[dim]
    if isinstance(size, int) and size < 2:
        return torch.zeros_like(x, dtype=torch.int64)
    if x.dtype in _SHORT and at_most([size], _LONGEST):
        integers = x.to(torch.int64)
        position = torch.arange(size).view([-1] + [1] * (x.dim() - 1 - dim))
        keys = (-integers if descending else integers) * size + position
        return torch.topk(keys, size, dim, largest=False).values % size
    values, order = torch.topk(_comparable(x), size, dim, largest=descending)
    group = _groups(values, dim) * size
    return torch.topk(group + order, size, dim, largest=False).values - group


def _groups(values: Tensor, dim: int) -> Tensor:
    """Numbers the distinct values along `dim`, which are sorted; NaN is one value."""
    size = values.shape[dim]
    if isinstance(size, int) or smallest(size) > 0:
        later, earlier = values.narrow(dim, 1, size - 1), values.narrow(dim, 0, size - 1)
    else:
        # there may be none; the first one does not differ from itself
        before = (torch.arange(size) - 1).clamp(min=0)
        later, earlier = values, values.index_select(dim, before)
    differs = later != earlier
    if values.is_floating_point():
        differs = differs & ~(torch.isnan(later) & torch.isnan(earlier))
    changes = differs.to(torch.int64)
    return torch.cumsum(changes if later is values else padded(changes, dim, 1, 0), dim)


def _comparable(x: Tensor) -> Tensor:
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.to(torch.float32)
    return x.to(torch.int32) if x.dtype in _SHORT else x


def _kthvalue(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, index = _sort(x, dim)
    return _pick(values, k - 1, dim, keepdim), _pick(index, k - 1, dim, keepdim)


def _mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the smallest of the most frequent values, and the position of its last element."""
    if x.dim() == 0:
        return x.clone(), torch.zeros_like(x, dtype=torch.int64)
    dim = dim % x.dim()
    size = x.shape[dim]
    values, index = _sort(x, dim)
    differs = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
    group = torch.cumsum(padded(differs.to(torch.int64), dim, 1, 0), dim)
    counts = torch.zeros_like(group).scatter_add(dim, group, torch.ones_like(group))
    last = (group <= counts.argmax(dim, keepdim=True)).sum(dim, keepdim=True) - 1
    found = (torch.gather(each, dim, last) for each in (values, index))
    value, position = (each if keepdim else each.squeeze(dim) for each in found)
    return value, position


def _pick(x: Tensor, at: int, dim: int, keepdim: bool) -> Tensor:
    if x.dim() == 0:
        return x
    # a size may be dynamic, and `select` would specialize it
    chosen = x.index_select(dim, torch.arange(at, at + 1))
    return chosen if keepdim else chosen.squeeze(dim)


def _median_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the lower of two medians; NaN if any element is."""
    size = x.shape[dim] if x.dim() else 1
    values, index = _sort(x, dim)
    middle = [_pick(each, (size - 1) // 2, dim, keepdim) for each in (values, index)]
    if not x.is_floating_point():
        return middle[0], middle[1]
    # the first NaN: they are the last ones, in their order
    nans = torch.isnan(x).to(torch.int64)
    first = torch.argmax(nans, dim, keepdim) if x.dim() else index
    has_nan = torch.isnan(_pick(values, size - 1, dim, keepdim))
    return torch.where(has_nan, torch.nan, middle[0]), torch.where(has_nan, first, middle[1])


def _median(x: Tensor) -> Tensor:
    if x.numel() == 0:
        return torch.full([], math.nan if x.is_floating_point() else torch.iinfo(x.dtype).min, dtype=x.dtype)
    return _median_dim(x.reshape(-1), 0)[0]


def _nanmedian_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the lower median of the elements that are not NaN."""
    if not x.is_floating_point() or x.dim() == 0:
        return _median_dim(x, dim, keepdim)
    values, index = _sort(x, dim)
    count = (~torch.isnan(x)).to(torch.int64).sum(dim, keepdim=True)
    at = ((count - 1) // 2).clamp(min=0)
    found = [torch.gather(each, dim, at) for each in (values, index)]
    return (found[0], found[1]) if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))


def _nanmedian(x: Tensor) -> Tensor:
    return _nanmedian_dim(x.reshape(-1), 0)[0] if x.numel() else _median(x)


def _searchsorted(
    sorted_sequence: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Returns how many elements of its row are below each value; all of them for NaN."""
    dtype = torch.int32 if out_int32 else torch.int64
    if sorter is not None:
        sorted_sequence = torch.gather(sorted_sequence, -1, sorter)
    right = right or side == "right"
    rows = sorted_sequence if sorted_sequence.dim() > 1 else sorted_sequence.reshape(1, -1)
    wanted = values if sorted_sequence.dim() > 1 else values.reshape(1, -1)
    size = rows.shape[-1]
    if not isinstance(size, int):
        return _counted(rows, wanted, right).to(dtype).reshape(values.shape)
    found = torch.zeros_like(wanted, dtype=torch.int64)
    # binary search of all values at once; `found` elements are known to be below
    for bit in reversed(range(size.bit_length())):
        candidate = found + (1 << bit)
        element = torch.gather(rows, -1, candidate.clamp(max=size) - 1)
        stop = element > wanted if right else element >= wanted
        found = torch.where(stop | (candidate > size), found, candidate)
    return found.to(dtype).reshape(values.shape)


def _counted(rows: Tensor, wanted: Tensor, right: bool) -> Tensor:
    element, value = rows.unsqueeze(-2), wanted.unsqueeze(-1)
    stop = element > value if right else element >= value
    return (~stop).to(torch.int64).sum(-1)


def _searchsorted_scalar(
    sorted_sequence: Tensor,
    value: float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    dtype = (
        sorted_sequence.dtype
        if isinstance(value, int)
        else torch.promote_types(sorted_sequence.dtype, torch.float32)
    )
    values = torch.full([], value, dtype=dtype)
    return _searchsorted(sorted_sequence, values, out_int32=out_int32, right=right, side=side, sorter=sorter)


def _bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    return _searchsorted(boundaries, x, out_int32=out_int32, right=right)


def _isin(
    elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Compares with each value where there may be none: torch's decomposition looks up a position."""
    count = test_elements.numel()
    if not isinstance(count, int) and smallest(count) > 0:
        return NotImplemented
    if not isinstance(count, int):
        is_in = (elements.unsqueeze(-1) == test_elements.reshape(-1)).to(torch.int64).sum(-1) > 0
        return ~is_in if invert else is_in
    return NotImplemented if count else torch.full(elements.shape, invert)


def _isin_scalar(
    element: float, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    return _isin(torch.full([], element), test_elements, invert=invert)


def _nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """Returns [size, rank]: the positions of the first nonzero elements."""
    count = x.numel()
    if not isinstance(count, int):
        return NotImplemented
    if not count or not x.dim() or not size:
        return torch.full([size, x.dim()], fill_value)
    at = torch.where(x.reshape(-1) != 0, torch.arange(count), count)
    first = torch.topk(at, min(size, count), largest=False).values
    flat = torch.constant_pad_nd(first, [0, max(size - count, 0)], count)
    positions, rest = [], flat
    for extent in reversed(x.shape):
        positions.append(rest % extent)
        rest = rest // extent
    return torch.where((flat == count).unsqueeze(1), fill_value, torch.stack(positions[::-1], 1))


FUNCTIONS: FunctionTable = {
    aten.bucketize.Tensor: _bucketize,
    aten.isin.Scalar_Tensor: _isin_scalar,
    aten.isin.Tensor_Tensor: _isin,
    aten.kthvalue.default: _kthvalue,
    aten.median.default: _median,
    aten.median.dim: _median_dim,
    aten.mode.default: _mode,
    aten.nanmedian.default: _nanmedian,
    aten.nanmedian.dim: _nanmedian_dim,
    aten.nonzero_static.default: _nonzero_static,
    aten.searchsorted.Scalar: _searchsorted_scalar,
    aten.searchsorted.Tensor: _searchsorted,
    aten.sort.default: _sort,
    aten.sort.stable: _sort_stable,
}
