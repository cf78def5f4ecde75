# SPDX-License-Identifier: Apache-2.0
"""Grid sampling of images.

Rows of channels are gathered from one table that ends with a row of zeros, for positions outside of the
image. Coordinates and weights are always float32: float16 does not resolve pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from delegatec_schemas.mps_graph import Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import cat, full, operand, table
from delegatec.backends.mps.dtypes import FLOATS
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import operand_dtypes

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
_CUBIC: Final = -0.75
"""ATen's free coefficient of the cubic kernel (R. Keys, 1981)."""


@dataclass(frozen=True)
class _Axis:
    """One dimension of a sampled image.

    Attributes:
        size: of the dimension.
        padding: of elements outside: 0 zeros, 1 the border, 2 the mirror image.
        align_corners: whether -1 and 1 are the centers of the first and last pixel, or their outer edges.
    """

    size: int
    padding: int
    align_corners: bool

    def place(self, coordinate: Expression) -> Expression:
        """Maps coordinates in [-1, 1] to positions of pixels."""
        if self.align_corners:
            return (coordinate + 1) * ((self.size - 1) / 2)
        return ((coordinate + 1) * self.size - 1) * 0.5

    def inside(self, place: Expression) -> Expression:
        """Maps positions into the image, according to the padding; zeros does not change them."""
        if self.padding == _REFLECTION:
            place = self._reflected(place)
        return place if self.padding == _ZEROS else place.clamp(0, self.size - 1)

    def _reflected(self, place: Expression) -> Expression:
        low, span = (0.0, self.size - 1.0) if self.align_corners else (-0.5, float(self.size))
        if span == 0:
            return place * 0
        distance = (place - low).unary(Operation.Abs)
        turns = (distance / span).unary(Operation.Floor)
        rest = distance - turns * span
        back = (turns - (turns * 0.5).unary(Operation.Floor) * 2).compare(Operation.Gt, 0.5)
        return back.where(span - rest, rest) + low

    def taps(self, coordinate: Expression, mode: int) -> list[tuple[Expression, Expression | None]]:
        """Returns the integer positions to gather, and their weights; None for a single position."""
        place = self.place(coordinate)
        if mode == _BICUBIC:
            first = place.unary(Operation.Floor)
            part = place - first
            kernel = [_far(part + 1), _near(part), _near(1 - part), _far(2 - part)]
            return [(self.inside(first + (step - 1)), weight) for step, weight in enumerate(kernel)]
        place = self.inside(place)
        if mode == _NEAREST:
            return [(_to_even(place), None)]
        first = place.unary(Operation.Floor)
        part = place - first
        return [(first, 1 - part), (first + 1, part)]


def _near(x: Expression) -> Expression:
    """Returns the cubic kernel at distances up to 1."""
    return (x * (_CUBIC + 2) - (_CUBIC + 3)) * x * x + 1


def _far(x: Expression) -> Expression:
    """Returns the cubic kernel at distances from 1 to 2."""
    return ((x * _CUBIC - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC


def _to_even(x: Expression) -> Expression:
    """Rounds to the nearest integer, ties to even: Round's ties are not documented."""
    low = x.unary(Operation.Floor)
    part = x - low
    odd = (low - (low * 0.5).unary(Operation.Floor) * 2).compare(Operation.Gt, 0.5)
    up = part.compare(Operation.Gt, 0.5) | (part.compare(Operation.Eq, 0.5) & odd)
    return low + up.to(x.dtype)


def _grid_sample(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x, grid = operand(b, bound["input"]), operand(b, bound["grid"]).to(torch.float32)
    batch, channels, height, width = x.shape
    rows = x.permute(0, 2, 3, 1).view(batch * height * width, channels)
    padded = cat([rows, full(b, [1, channels], 0, x.dtype)], 0)
    axes = [_Axis(size, bound["padding_mode"], bound["align_corners"]) for size in (width, height)]
    across, down = (
        axis.taps(grid.slice(3, dim, dim + 1).view(*grid.shape[:3]), bound["interpolation_mode"])
        for dim, axis in enumerate(axes)
    )
    start = table(b, torch.arange(batch).view(-1, 1, 1) * (height * width))
    total: Expression | None = None
    for row, vertical in down:
        for column, horizontal in across:
            place = _whole(row, height) * width + _whole(column, width) + start
            on = _is_on(row, height) & _is_on(column, width)
            outside = full(b, [1], batch * height * width, torch.int32)
            picked = padded.index_select(0, on.where(place, outside))
            if vertical is not None and horizontal is not None:
                picked = picked * (vertical * horizontal).to(x.dtype).view(*place.shape, 1)
            total = picked if total is None else total + picked
    assert total is not None
    total.permute(0, 3, 1, 2).bind(node)


def _whole(place: Expression, size: int) -> Expression:
    return place.clamp(0, size - 1).to(torch.int32)


def _is_on(place: Expression, size: int) -> Expression:
    return place.compare(Operation.Ge, 0) & place.compare(Operation.Le, size - 1)


ROWS: Final = (
    OperatorRow(
        overload("grid_sampler_2d"),
        _grid_sample,
        (operand_dtypes(FLOATS, "coordinates are fractions."),),
        note="a weighted sum of gathered rows of channels",
    ),
)
