# SPDX-License-Identifier: Apache-2.0
"""Resizing of images and volumes, one dimension after the other.

Each element of the result is a weighted sum of a few elements of the operand, or is one of them. Elements and
weights depend on sizes only: they are constants. A product with a matrix of weights would not do, since its
zeros make NaN of infinities anywhere in a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Final, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.rules.pooling import averages
from delegatec.edge.legalize.rules.windows import Windows
from delegatec.edge.legalize.value import Value, table, value_of

aten = torch.ops.aten

# From this many elements on, one gather of all is cheaper than one per element.
_MANY: Final = 5


class _Axis(NamedTuple):
    """One dimension: its size, that of the result, and the factor, if the program specifies it.

    Places are computed in `dtype`: float64 for values of that dtype, float32 for others.
    """

    size: int
    outputs: int
    factor: float | None
    dtype: torch.dtype


class _Taps(NamedTuple):
    """For each output, its elements and their weights: int32 and the dtype of places, [outputs, K]."""

    places: torch.Tensor
    weights: torch.Tensor


def _operand(node: Node) -> Node:
    source: Node = next(iter(bind(node).values()))  # `self` of some overloads, `input` of others
    return source


def _axes(node: Node) -> list[_Axis]:
    bound = bind(node)
    source = shape_of(_operand(node))
    names = ("scales_d", "scales_h", "scales_w")[-(len(source) - 2) :]
    factors = bound.get("scale_factors") or [bound.get(name) for name in names]
    dtype = torch.promote_types(dtype_of(node), torch.float32)
    return [_Axis(*each, dtype) for each in zip(source[2:], shape_of(node)[2:], factors, strict=True)]


# ---- the nearest element ---------------------------------------------------------------------------------


def _nearest(target: OpOverload) -> Rule:
    """Returns the rule; `target`, the operator for one dimension, selects the elements by ATen's rounding."""

    def rule(builder: Builder, node: Node) -> Node:
        x, repeats = value_of(builder, _operand(node)), []
        for dim, axis in enumerate(_axes(node), 2):
            numbers = torch.arange(axis.size, dtype=torch.float64).view(1, 1, -1)
            places = target(numbers, [axis.outputs], axis.factor).view(-1).to(torch.int32)
            output, times = torch.arange(axis.outputs), axis.outputs // axis.size
            step = int(places[1]) if axis.outputs > 1 else 1
            repeats.append(times if times and torch.equal(places, output // times) else 1)
            if step > 0 and torch.equal(places, output * step):
                x = x.slice(dim, 0, int(places[-1]) + 1, step)
            elif repeats[-1] == 1:
                x = x.index_select(dim, table(builder, places))
        if max(repeats) > 1:
            sizes, outer = x.shape[2:], math.prod(x.shape[:2])
            apart = (size for pair in zip(sizes, (1,) * len(sizes), strict=True) for size in pair)
            wide = (size for pair in zip(sizes, repeats, strict=True) for size in pair)
            x = x.view(outer, *apart).expand(outer, *wide).view(*shape_of(node))
        return x.node

    return rule


# ---- weighted sums ---------------------------------------------------------------------------------------


def _step(axis: _Axis, align_corners: bool) -> torch.Tensor:
    """Returns the elements of the operand per element of the result, as ATen rounds it."""
    if align_corners:
        step = (axis.size - 1) / (axis.outputs - 1) if axis.outputs > 1 else 0.0
    else:
        step = 1 / axis.factor if axis.factor else axis.size / axis.outputs
    return torch.tensor(step, dtype=axis.dtype)


def _centers(axis: _Axis, align_corners: bool) -> torch.Tensor:
    """Returns the position in the operand of each element of the result."""
    output, step = torch.arange(axis.outputs, dtype=axis.dtype), _step(axis, align_corners)
    return output * step if align_corners else (output + 0.5) * step - 0.5


def _linear(axis: _Axis, align_corners: bool) -> _Taps:
    place = _centers(axis, align_corners).clamp(min=0)
    low = place.floor().clamp(max=axis.size - 1)
    share = (place - low).clamp(0, 1)
    places = torch.stack([low, (low + 1).clamp(max=axis.size - 1)], 1).to(torch.int32)
    return _Taps(places, torch.stack([1 - share, share], 1))


def _cubic(axis: _Axis, align_corners: bool) -> _Taps:
    place = _centers(axis, align_corners)
    places = place.floor().unsqueeze(1) + torch.arange(-1, 3)
    weights = _keys((place.unsqueeze(1) - places).abs(), a=-0.75)
    return _Taps(places.clamp(0, axis.size - 1).to(torch.int32), weights)


def _antialiased(width: int, curve: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[_Axis, bool], _Taps]:
    """Weights by a curve that spans `width` elements of the result, or of the operand if that has fewer."""

    def taps(axis: _Axis, align_corners: bool) -> _Taps:
        step = _step(axis, align_corners)
        reach = width * 0.5 * step.clamp(min=1.0)
        center = (torch.arange(axis.outputs, dtype=axis.dtype) + 0.5) * step
        first = (center - reach + 0.5).to(torch.int64).clamp(min=0)
        last = (center + reach + 0.5).to(torch.int64).clamp(max=axis.size) - 1
        tap = torch.arange(int((last - first).max()) + 1)
        places = first.unsqueeze(1) + tap
        distance = (places - center.unsqueeze(1) + 0.5) / step.clamp(min=1.0)
        weights = curve(distance.abs()).where(places <= last.unsqueeze(1), 0.0)
        weights = weights / weights.sum(1, keepdim=True)
        # Missing elements of a window repeat its last one and share its weight: infinity times zero would be
        # NaN.
        places = places.minimum(last.unsqueeze(1))
        same = (places == last.unsqueeze(1)).to(axis.dtype)
        at_last = (weights * same).sum(1, keepdim=True) / same.sum(1, keepdim=True)
        return _Taps(places.to(torch.int32), torch.where(same > 0, at_last, weights))

    return taps


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return (1 - distance).clamp(min=0)


def _keys(distance: torch.Tensor, a: float) -> torch.Tensor:
    """Returns the cubic kernel of Keys."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))


def _interpolated(taps: Callable[[_Axis, bool], _Taps]) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        x, align_corners = value_of(builder, _operand(node)), bind(node)["align_corners"]
        axes = list(enumerate(_axes(node), 2))
        # Dimensions that shrink come first: fewer elements remain for the others.
        for dim, axis in sorted(axes, key=lambda each: each[1].outputs / each[1].size):
            x = _weighted(x, dim, taps(axis, align_corners))
        return x.node

    return rule


def _weighted(x: Value, dim: int, taps: _Taps) -> Value:
    """Sums of elements of a dimension by their weights."""
    outputs, several = taps.places.shape
    alone = taps.weights.where(taps.places == torch.arange(outputs).unsqueeze(1), 0.0).sum(1) == 1
    if outputs == x.shape[dim] and alone.all():
        return x
    behind = (1,) * (x.rank - 1 - dim)
    weights = taps.weights.to(x.dtype)
    if several < _MANY:
        parts = (
            x.index_select(dim, table(x.builder, taps.places[:, tap]))
            * table(x.builder, weights[:, tap].reshape(outputs, *behind))
            for tap in range(several)
        )
        return reduce(Value.__add__, parts)
    # The sum is an average pool of an image's rows or columns; the weights include its divisor.
    x = x.index_select(dim, table(x.builder, taps.places.reshape(-1)))
    x = x * table(x.builder, (weights * several).view(-1, *behind))
    other = Windows(x.shape[5 - dim], x.shape[5 - dim], kernel=1, stride=1)
    windows = Windows(x.shape[dim], outputs, kernel=several, stride=several)
    return averages(x, *((windows, other) if dim == 2 else (other, windows)))


def _of_fractions(rule: Rule) -> Rule:
    """Restricts a rule to floating point of static size: eager mode has integer weights for bytes."""

    def restricted(builder: Builder, node: Node) -> Node | None:
        sizes = (*shape_of(_operand(node)), *shape_of(node))
        if not dtype_of(node).is_floating_point or not all(isinstance(size, int) for size in sizes):
            return None
        result: Node = rule(builder, node)
        return result

    return restricted


_NEAREST: Final = {
    aten.upsample_nearest1d.default: (aten.upsample_nearest2d.vec, aten.upsample_nearest3d.vec),
    aten._upsample_nearest_exact1d.default: (
        aten._upsample_nearest_exact2d.vec,
        aten._upsample_nearest_exact3d.vec,
    ),
}
_SMOOTH: Final = {
    aten.upsample_bilinear2d.vec: _linear,
    aten.upsample_trilinear3d.vec: _linear,
    aten.upsample_bicubic2d.vec: _cubic,
    aten._upsample_bilinear2d_aa.default: _antialiased(2, _triangle),
    aten._upsample_bicubic2d_aa.vec: _antialiased(4, partial(_keys, a=-0.5)),
}

# Operators without a kernel in the runtime.
RULES: Final[RuleTable] = {
    aten._upsample_bicubic2d_aa.vec: _of_fractions(_interpolated(_SMOOTH[aten._upsample_bicubic2d_aa.vec]))
}

REWRITES: Final = (
    *(
        Rewrite(
            target,
            _nearest(in_one_dimension),
            note="by repetition for integer factors, otherwise by a gather, with ATen's rounding",
            computes=False,
            preserved=True,
        )
        for in_one_dimension, targets in _NEAREST.items()
        for target in targets
    ),
    *(
        Rewrite(
            target,
            _interpolated(taps),
            (operand_dtypes(FLOATS, "weights are fractions.", "convert to float32"),),
            note="one dimension after the other, by constant weights; not along those that keep their size, "
            "where eager multiplies neighbors by 0, which is NaN for an infinity",
            preserved=True,
        )
        for target, taps in _SMOOTH.items()
    ),
)
