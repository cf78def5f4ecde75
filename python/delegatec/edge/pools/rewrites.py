# SPDX-License-Identifier: Apache-2.0
"""ATen's pools as those along any dimensions, which move no channels; positions of maxima by comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind, read_results, tensors
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import only_first_result
from delegatec.edge.legalize.rule import Refusal, Rewrite
from delegatec.edge.legalize.rules.pooling import FLOAT
from delegatec.edge.legalize.rules.windows import Pair, Windows, padding_of, runs, windows_of
from delegatec.edge.legalize.value import Value, cat, table, value_of
from delegatec.edge.pools.operators import POOLS, least, windows
from delegatec.edge.symbols import is_dynamic

aten = torch.ops.aten

_CEIL: Final = Refusal("argument", "ceil_mode is not supported for dynamic sizes")
_VARY: Final = Refusal("shape", "the window sizes depend on a dynamic dimension")
_POSITIONS: Final = Refusal("shape", "positions of maxima in images of dynamic size are not supported")


class _Axis(NamedTuple):
    """Windows along a dimension, and the padding around it."""

    dim: int
    windows: Windows
    padding: Pair = (0, 0)

    @property
    def is_identity(self) -> bool:
        """Whether each window is one element, and each element one window."""
        return self.windows.kernel == self.windows.stride == 1 and not any(self.padding)


_Pool = Callable[[Value, Sequence[_Axis]], Value]


def _arguments(axes: Sequence[_Axis]) -> list[list[int]]:
    """Returns dimensions, kernels, strides and padding."""
    kernel, stride = ([getattr(axis.windows, name) for axis in axes] for name in ("kernel", "stride"))
    return [[axis.dim for axis in axes], kernel, stride, [each for axis in axes for each in axis.padding]]


def _pool(
    operator: Any, x: Value, axes: Sequence[_Axis], *others: Any, elements: Sequence[int] = ()
) -> Value:
    shape = list(x.shape)
    for axis in axes:
        shape[axis.dim] = axis.windows.outputs
    val = x.builder.empty([*shape, *elements], x.dtype)
    return Value(x.builder, x.builder.call(operator, x.node, *_arguments(axes), *others, val=val))


def _maxima(x: Value, axes: Sequence[_Axis]) -> Value:
    own = [axis for axis in axes if not axis.is_identity]
    dilation = [axis.windows.dilation for axis in own]
    return _pool(POOLS.maxima.default, x, own, dilation) if own else x


def _averages(x: Value, axes: Sequence[_Axis]) -> Value:
    own = [axis for axis in axes if not axis.is_identity]
    return _pool(POOLS.averages.default, x, own) if own else x


def _axes(node: Node, spatial: int, rank: int) -> list[_Axis] | None:
    """Returns the windows of a pool along its last dimensions; None if their padding depends on sizes."""
    found = windows_of(node, spatial)
    padding = padding_of(node, found)
    if padding is None:
        return None
    return [_Axis(*each) for each in zip(range(rank - spatial, rank), found, padding, strict=True)]


def _max_pool(spatial: int, b: Builder, node: Node) -> Any:
    x = value_of(b, bind(node)["self"])
    axes = _axes(node, spatial, x.rank)
    if axes is None:
        return _CEIL
    result = _maxima(x, axes)
    if 1 not in read_results(node):
        return [result.node, None]
    if is_dynamic(x.shape[-spatial:]):
        return _POSITIONS
    return [result.node, _positions(x, result, axes).node]


def _positions(x: Value, result: Value, axes: Sequence[_Axis]) -> Value:
    """Returns the positions of maxima in row-major order of all pooled dimensions: int64.

    As in ATen, it is the first of several, and the last NaN.
    """
    sizes = [axis.windows.size for axis in axes]
    beyond = math.prod(sizes)
    _, kernel, stride, padding = _arguments(axes)
    dilation = [axis.windows.dilation for axis in axes]
    image = torch.arange(beyond, dtype=torch.int32).view(sizes)
    indices = windows(image, range(len(axes)), kernel, stride, padding, dilation, beyond)
    elements = _pool(POOLS.windows.default, x, axes, dilation, least(x.dtype), elements=kernel)
    maxima = result.view(*result.shape, *[1] * len(axes))
    # the largest key is that of the first maximum, or of the last NaN
    keys = elements.eq(maxima).where(table(x.builder, -indices), -beyond)
    if x.dtype.is_floating_point:
        keys = elements.isnan().where(table(x.builder, indices + 1), keys)
    key = keys.amax([*range(x.rank, x.rank + len(axes))])
    found = -key
    if x.dtype.is_floating_point:
        found = key.gt(0).where(key - 1, found)
    return found.within(0, beyond).to(torch.int64)


def _avg_pool(spatial: int, b: Builder, node: Node) -> Any:
    bound = bind(node)
    x, divisor = value_of(b, bound["self"]), bound["divisor_override"]
    axes = _axes(node, spatial, x.rank)
    if axes is None:
        return _CEIL
    if divisor or bound["count_include_pad"]:
        x, axes = _counted(x, axes, everything=bool(divisor))
    result = _averages(x, axes)
    count = math.prod(axis.windows.kernel for axis in axes)
    return (result * (count / divisor) if divisor and divisor != count else result).node


def _counted(x: Value, axes: Sequence[_Axis], everything: bool) -> tuple[Value, list[_Axis]]:
    """Makes the padding that averages count elements: all of it, or all but that of ceil_mode."""
    pads = [0] * (2 * len(axes))
    rest = []
    for index, (dim, found, (before, after)) in enumerate(axes):
        own = after if everything else min(after, found.padding)
        innermost = len(axes) - 1 - index
        pads[2 * innermost : 2 * innermost + 2] = before, own
        size = found.size + before + own
        rest.append(_Axis(dim, Windows(size, found.outputs, found.kernel, found.stride), (0, after - own)))
    return (x.pad(pads, 0) if any(pads) else x), rest


def _adaptive(spatial: int, pool: _Pool, b: Builder, node: Node) -> Any:
    """Pools at once if windows are regular, else runs of such."""
    x, results = value_of(b, bind(node)["self"]), tensors(node.meta["val"])
    first = x.rank - spatial
    if is_dynamic(x.shape[first:]):
        return _VARY
    found = [
        runs(size, count) for size, count in zip(x.shape[first:], results[0].shape[-spatial:], strict=True)
    ]
    whole = [_Axis(dim, each[0][1]) for dim, each in enumerate(found, first) if len(each) == 1]
    if whole:
        x = pool(x, whole)
    for dim, several in enumerate(found, first):
        if len(several) > 1:
            parts = [
                pool(x.slice(dim, start, start + each.size), [_Axis(dim, each)]) for start, each in several
            ]
            x = cat(parts, dim)
    if len(results) == 1:
        return x.node
    return [x.node, None]


_MAXIMA: Final = "in any layout; positions by comparisons"
_NOTE: Final = "in any layout; padding that counts is added to the tensor, a divisor is a factor"
_RUNS: Final = "in any layout; windows of several sizes by dimension, in runs of the same size"
_FIRST: Final = only_first_result("positions are those of windows of one size.")

REWRITES: Final = (
    *(
        Rewrite(target, partial(_max_pool, spatial), note=_MAXIMA, preserved=spatial == 3)
        for spatial, target in (
            (2, aten.max_pool2d_with_indices.default),
            (3, aten.max_pool3d_with_indices.default),
        )
    ),
    *(
        Rewrite(target, partial(_avg_pool, spatial), (FLOAT,), note=_NOTE, preserved=spatial == 3)
        for spatial, target in ((2, aten.avg_pool2d.default), (3, aten.avg_pool3d.default))
    ),
    *(
        Rewrite(target, partial(_adaptive, spatial, _averages), (FLOAT,), note=_RUNS, preserved=True)
        for spatial, target in (
            (2, aten._adaptive_avg_pool2d.default),
            (3, aten.adaptive_avg_pool3d.default),
        )
    ),
    *(
        Rewrite(target, partial(_adaptive, spatial, _maxima), (_FIRST,), note=_RUNS, preserved=True)
        for spatial, target in (
            (2, aten.adaptive_max_pool2d.default),
            (3, aten.adaptive_max_pool3d.default),
        )
    ),
)
