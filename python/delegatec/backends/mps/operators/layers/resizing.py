# SPDX-License-Identifier: Apache-2.0
"""Resizing of images and volumes, one dimension after the other.

Each element of the result is a weighted sum of a few elements of the operand, or is one of them. Which ones,
and by what weights, depends on sizes only: they are constants. A product with a matrix of weights would not
do, since its zeros make NaN of infinities anywhere in a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand, table
from delegatec.backends.mps.operators.family import Lower
from delegatec.backends.mps.operators.layers.pooling import Windows, averages
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS
from delegatec.edge.arguments import bind
from delegatec.edge.nodes import shape_of

# From this many elements on, one look-up of all is cheaper than one of each.
_MANY: Final = 5


class _Axis(NamedTuple):
    """One dimension: its size, that of the result, and the factor between, if the program gives it."""

    size: int
    outputs: int
    factor: float | None


class _Taps(NamedTuple):
    """For each output, which elements it is made of and their weights: int64 and float32, [outputs, K]."""

    places: torch.Tensor
    weights: torch.Tensor


def _axes(node: Node) -> list[_Axis]:
    bound = bind(node)
    source = shape_of(_operand(node))
    count = len(source) - 2
    names = ("scales_d", "scales_h", "scales_w")[-count:]
    factors = bound.get("scale_factors") or [bound.get(name) for name in names]
    return [_Axis(*each) for each in zip(source[2:], shape_of(node)[2:], factors, strict=True)]


def _operand(node: Node) -> Node:
    source: Node = next(iter(bind(node).values()))  # `self` of some overloads, `input` of others
    return source


# ---- the nearest element ---------------------------------------------------------------------------------


def _nearest(target: OpOverload) -> Lower:
    """`target` is the operator for one dimension, which says what is nearest: its rounding is ATen's."""

    def lower(b: GraphBuilder, node: Node) -> None:
        x, repeats = operand(b, _operand(node)), []
        for dim, axis in enumerate(_axes(node), 2):
            numbers = torch.arange(axis.size, dtype=torch.float64).view(1, 1, -1)
            places = target(numbers, [axis.outputs], axis.factor).view(-1).to(torch.int64)
            output, times = torch.arange(axis.outputs), axis.outputs // axis.size
            step = int(places[1]) if axis.outputs > 1 else 1
            repeats.append(times if times and torch.equal(places, output // times) else 1)
            if step > 0 and torch.equal(places, output * step):
                x = x.slice(dim, 0, int(places[-1]) + 1, step)
            elif repeats[-1] == 1:
                x = x.index_select(dim, table(b, places))
        if max(repeats) > 1:
            sizes, outer = x.shape[2:], math.prod(x.shape[:2])
            apart = (size for pair in zip(sizes, (1,) * len(sizes), strict=True) for size in pair)
            wide = (size for pair in zip(sizes, repeats, strict=True) for size in pair)
            x = x.view(outer, *apart).expand(outer, *wide).view(*shape_of(node))
        x.bind(node)

    return lower


# ---- weighted sums ---------------------------------------------------------------------------------------


def _step(axis: _Axis, align_corners: bool) -> torch.Tensor:
    """Elements of the operand for one of the result, as ATen rounds it."""
    if align_corners:
        step = (axis.size - 1) / (axis.outputs - 1) if axis.outputs > 1 else 0.0
    else:
        step = 1 / axis.factor if axis.factor else axis.size / axis.outputs
    return torch.tensor(step, dtype=torch.float32)


def _linear(axis: _Axis, align_corners: bool) -> _Taps:
    output, step = torch.arange(axis.outputs, dtype=torch.float32), _step(axis, align_corners)
    place = output * step if align_corners else ((output + 0.5) * step - 0.5).clamp(min=0)
    low = place.floor().clamp(max=axis.size - 1)
    share = (place - low).clamp(0, 1)
    places = torch.stack([low, (low + 1).clamp(max=axis.size - 1)], 1).to(torch.int64)
    return _Taps(places, torch.stack([1 - share, share], 1))


def _antialiased(width: int, curve: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[_Axis, bool], _Taps]:
    """Weights by a curve that spans `width` elements of the result, or of the operand if that has fewer."""

    def taps(axis: _Axis, align_corners: bool) -> _Taps:
        step = _step(axis, align_corners)
        reach = width * 0.5 * step.clamp(min=1.0)
        center = (torch.arange(axis.outputs, dtype=torch.float32) + 0.5) * step
        first = (center - reach + 0.5).to(torch.int64).clamp(min=0)
        last = (center + reach + 0.5).to(torch.int64).clamp(max=axis.size) - 1
        tap = torch.arange(int((last - first).max()) + 1)
        places = first.unsqueeze(1) + tap
        distance = (places - center.unsqueeze(1) + 0.5) / step.clamp(min=1.0)
        inside = places <= last.unsqueeze(1)
        weights = curve(distance.abs()).where(inside, 0.0)
        weights = weights / weights.sum(1, keepdim=True)
        # What a window lacks repeats its last element, and they share its weight: no infinity meets a zero.
        places = places.minimum(last.unsqueeze(1))
        same = (places == last.unsqueeze(1)).float()
        at_last = (weights * same).sum(1, keepdim=True) / same.sum(1, keepdim=True)
        return _Taps(places, torch.where(same > 0, at_last, weights))

    return taps


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return (1 - distance).clamp(min=0)


def _keys(distance: torch.Tensor, a: float) -> torch.Tensor:
    """The cubic kernel of Keys."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))


def _cubic(axis: _Axis, align_corners: bool) -> _Taps:
    output, step = torch.arange(axis.outputs, dtype=torch.float32), _step(axis, align_corners)
    place = output * step if align_corners else (output + 0.5) * step - 0.5
    places = place.floor().unsqueeze(1) + torch.arange(-1, 3)
    weights = _keys((place.unsqueeze(1) - places).abs(), a=-0.75)
    return _Taps(places.clamp(0, axis.size - 1).to(torch.int64), weights)


def _interpolated(taps: Callable[[_Axis, bool], _Taps]) -> Lower:
    def lower(b: GraphBuilder, node: Node) -> None:
        x, align_corners = operand(b, _operand(node)), bind(node)["align_corners"]
        axes = list(enumerate(_axes(node), 2))
        # What gets smaller goes first: there is less left for the others.
        for dim, axis in sorted(axes, key=lambda each: each[1].outputs / each[1].size):
            x = _weighted(x, dim, taps(axis, align_corners))
        x.bind(node)

    return lower


def _weighted(x: Expression, dim: int, taps: _Taps) -> Expression:
    """Sums of elements of a dimension by their weights."""
    outputs, several = taps.places.shape
    alone = taps.weights.where(taps.places == torch.arange(outputs).unsqueeze(1), 0.0).sum(1) == 1
    if outputs == x.shape[dim] and alone.all():
        return x
    behind = (1,) * (len(x.shape) - 1 - dim)
    weights = taps.weights.to(x.dtype)
    if several < _MANY:
        parts = [
            x.index_select(dim, table(x.builder, taps.places[:, tap]))
            * table(x.builder, weights[:, tap].reshape(outputs, *behind))
            for tap in range(several)
        ]
        return _total(parts)
    # The sum is an average, of an image's rows or columns, with what that divides by in the weights.
    x = x.index_select(dim, table(x.builder, taps.places.reshape(-1)))
    x = x * table(x.builder, (weights * several).view(-1, *behind))
    other = Windows(x.shape[5 - dim], x.shape[5 - dim], kernel=1, stride=1)
    windows = Windows(x.shape[dim], outputs, kernel=several, stride=several)
    return averages(x, *((windows, other) if dim == 2 else (other, windows)))


def _total(parts: Sequence[Expression]) -> Expression:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


_NEAREST: Final = {
    "upsample_nearest": torch.ops.aten.upsample_nearest1d.default,
    "_upsample_nearest_exact": torch.ops.aten._upsample_nearest_exact1d.default,
}
_SMOOTH: Final = {
    "upsample_bilinear2d.vec": _linear,
    "upsample_trilinear3d.vec": _linear,
    "upsample_bicubic2d.vec": _cubic,
    "_upsample_bilinear2d_aa": _antialiased(2, _triangle),
    "_upsample_bicubic2d_aa.vec": _antialiased(4, partial(_keys, a=-0.5)),
}

ROWS: Final = (
    *(
        OperatorRow(
            overload(f"{name}{rank}d.vec"),
            _nearest(target),
            computes=False,
            note="repeated by whole numbers, looked up otherwise; what is nearest is asked of ATen",
            preserved=True,
        )
        for name, target in _NEAREST.items()
        for rank in (2, 3)
    ),
    *(
        OperatorRow(
            overload(name),
            _interpolated(taps),
            (FLOAT_OPERANDS,),
            note="along one dimension after the other, by constant weights",
            preserved=True,
        )
        for name, taps in _SMOOTH.items()
    ),
)
