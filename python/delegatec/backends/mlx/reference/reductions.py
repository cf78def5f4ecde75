# SPDX-License-Identifier: Apache-2.0
"""Reductions, cumulative sums, and order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from delegatec.backends.mlx.reference.run import Run, Semantics, axes_of, axis_of, floating, reject

Tensor = torch.Tensor
Reduce = Callable[[Tensor, list[int], bool], Tensor]


def _reduction(function: Reduce) -> Semantics:
    def run(run: Run, node: Any) -> None:
        x = run[node.x]
        axes = axes_of(node.axes, x.dim())
        run[node.out] = function(x, axes, node.keepdims) if axes else x

    return run


def _sum(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    """Sums bools as int32, and other integers in their dtype."""
    dtype = torch.int32 if x.dtype == torch.bool else x.dtype
    return x.sum(axes, keepdims, dtype=dtype)


def _prod(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    dtype = torch.int32 if x.dtype == torch.bool else x.dtype
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdims, dtype=dtype)
    return x


def _median(x: Tensor, axes: list[int], keepdims: bool) -> Tensor:
    """Returns the mean of the two elements in the middle."""
    kept = [dim for dim in range(x.dim()) if dim not in axes]
    flat = x.permute(*kept, *axes).flatten(len(kept)).sort(-1).values
    middle = flat.shape[-1] // 2
    found = flat[..., middle]
    if flat.shape[-1] % 2 == 0:
        found = (flat[..., middle - 1] + found) / 2
    shape = [1 if dim in axes else size for dim, size in enumerate(x.shape)]
    return found.reshape(shape) if keepdims else found


def _moment(function: Callable[..., Tensor]) -> Semantics:
    def run(run: Run, node: Any) -> None:
        x = floating(run[node.x])
        axes = axes_of(node.axes, x.dim())
        run[node.out] = function(x, axes, correction=node.ddof, keepdim=node.keepdims)

    return run


def _position(function: Callable[[Tensor, int, bool], Tensor], least: float) -> Semantics:
    """Positions are those of the first extremum; comparisons skip NaN, unless it is the first element."""

    def run(run: Run, node: Any) -> None:
        x = run[node.x]
        axis = axis_of(node.axis, x.dim())
        if x.dtype.is_floating_point:
            is_first_nan = x.narrow(axis, 0, 1).isnan()
            x = torch.where(is_first_nan, 0.0, x.nan_to_num(least, math.inf, -math.inf))
        run[node.out] = function(x, axis, node.keepdims).to(torch.uint32)

    return run


def _cumsum(run: Run, node: Any) -> None:
    x = run[node.x]
    axis = axis_of(node.axis, x.dim())
    dtype = torch.int32 if x.dtype == torch.bool else x.dtype
    found = x.flip(axis) if node.reverse else x
    found = found.cumsum(axis, dtype=dtype)
    if not node.inclusive:
        found = torch.cat(
            [torch.zeros_like(found.narrow(axis, 0, 1)), found.narrow(axis, 0, x.shape[axis] - 1)], axis
        )
    run[node.out] = found.flip(axis) if node.reverse else found


def _sort(run: Run, node: Any) -> None:
    x = run[node.x]
    run[node.out] = x.sort(axis_of(node.axis, x.dim())).values


def _argsort(run: Run, node: Any) -> None:
    x = run[node.x]
    axis = axis_of(node.axis, x.dim())
    values = x.sort(axis).values
    size = x.shape[axis]

    def ties() -> Tensor:
        return values.narrow(axis, 1, size - 1) == values.narrow(axis, 0, size - 1)

    if run.unspecified.choose("ties", ties, "the order of equal elements") == "last":
        # of the reversed elements, whose order is kept
        found = size - 1 - x.flip(axis).sort(dim=axis, stable=True).indices
    else:
        found = x.sort(dim=axis, stable=True).indices
    run[node.out] = found.to(torch.uint32)


def _partition(run: Run, node: Any) -> None:
    """Sorts, which is one of the orders that are allowed."""
    _check_kth(run, node)
    _sort(run, node)


def _argpartition(run: Run, node: Any) -> None:
    _check_kth(run, node)
    _argsort(run, node)


def _check_kth(run: Run, node: Any) -> None:
    x = run[node.x]
    size, kth = x.shape[axis_of(node.axis, x.dim())], run.integer(node.kth)
    if not -size <= kth < size:
        reject(f"a partition at {kth} of {size} elements")


SEMANTICS: Final[dict[str, Semantics]] = {
    "All": _reduction(lambda x, axes, keep: x.bool().all(axes, keep)),
    "Any": _reduction(lambda x, axes, keep: x.bool().any(axes, keep)),
    "ArgPartition": _argpartition,
    "Argmax": _position(torch.argmax, -math.inf),
    "Argmin": _position(torch.argmin, math.inf),
    "Argsort": _argsort,
    "Cumsum": _cumsum,
    "LogSumExp": _reduction(lambda x, axes, keep: floating(x).logsumexp(axes, keep)),
    "Max": _reduction(torch.amax),
    "Mean": _reduction(lambda x, axes, keep: floating(x).mean(axes, keep)),
    "Median": _reduction(_median),
    "Min": _reduction(torch.amin),
    "Partition": _partition,
    "Prod": _reduction(_prod),
    "Sort": _sort,
    "Std": _moment(torch.std),
    "Sum": _reduction(_sum),
    "Var": _moment(torch.var),
}
