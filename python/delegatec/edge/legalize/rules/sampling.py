# SPDX-License-Identifier: Apache-2.0
"""Grid sampling of images.

Rows of channels are gathered from one table that ends with a row of zeros, for positions outside of the
image. Coordinates and weights are always float32: float16 does not resolve pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.indices import progression
from delegatec.edge.legalize.rules.interpolation import far, near
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.value import Value, cat, full, value_of

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


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

    def position(self, coordinate: Value) -> Value:
        """Maps coordinates in [-1, 1] to positions of pixels."""
        if self.align_corners:
            return (coordinate + 1) * ((self.size - 1) / 2)
        return ((coordinate + 1) * self.size - 1) * 0.5

    def inside(self, position: Value) -> Value:
        """Maps positions into the image, according to the padding; zeros does not change them."""
        if self.padding == _REFLECTION:
            position = self._reflected(position)
        return position if self.padding == _ZEROS else position.clamp(0, self.size - 1)

    def _reflected(self, position: Value) -> Value:
        low, span = (0.0, self.size - 1.0) if self.align_corners else (-0.5, float(self.size))
        if span == 0:
            return position * 0
        distance = (position - low).abs()
        turns = (distance / span).floor()
        rest = distance - turns * span
        back = (turns - (turns * 0.5).floor() * 2).gt(0.5)
        return back.where(span - rest, rest) + low

    def taps(self, coordinate: Value, mode: int) -> list[tuple[Value, Value | None]]:
        """Returns the integer positions to gather, and their weights; None for a single position."""
        position = self.position(coordinate)
        if mode == _BICUBIC:
            first = position.floor()
            part = position - first
            kernel = [far(part + 1), near(part), near(1 - part), far(2 - part)]
            return [(self.inside(first + (tap - 1)), weight) for tap, weight in enumerate(kernel)]
        position = self.inside(position)
        if mode == _NEAREST:
            return [(position.round(), None)]
        first = position.floor()
        part = position - first
        return [(first, 1 - part), (first + 1, part)]


def _grid_sample(builder: Builder, node: Node) -> Node:
    bound = bind(node)
    x, grid = value_of(builder, bound["input"]), value_of(builder, bound["grid"], torch.float32)
    batch, channels, height, width = x.shape
    pixels = batch * height * width
    rows = x.permute(0, 2, 3, 1).view(pixels, channels)
    padded = cat([rows, full(builder, [1, channels], 0, x.dtype)], 0)
    axes = [_Axis(size, bound["padding_mode"], bound["align_corners"]) for size in (width, height)]
    across, down = (
        axis.taps(grid.slice(3, dim, dim + 1).view(*grid.shape[:3]), bound["interpolation_mode"])
        for dim, axis in enumerate(axes)
    )
    start = progression(builder, batch, 2, step=height * width)
    total: Value | None = None
    for row, vertical in down:
        for column, horizontal in across:
            index = _as_index(row, height) * width + _as_index(column, width) + start
            on = _is_on(row, height) & _is_on(column, width)
            picked = padded.take(0, on.where(index, pixels).within(0, pixels))
            if vertical is not None and horizontal is not None:
                picked = picked * (vertical * horizontal).to(x.dtype).view(*index.shape, 1)
            total = picked if total is None else total + picked
    assert total is not None
    return total.permute(0, 3, 1, 2).node


def _as_index(position: Value, size: int) -> Value:
    return position.clamp(0, size - 1).to(torch.int32)


def _is_on(position: Value, size: int) -> Value:
    return position.ge(0.0) & position.le(size - 1.0)


REWRITES: Final = (
    Rewrite(
        torch.ops.aten.grid_sampler_2d.default,
        _grid_sample,
        (operand_dtypes(FLOATS, "coordinates are fractional."),),
        note="a weighted sum of gathered rows of channels; the result at NaN or infinite coordinates is not "
        "that of eager mode for padding by the border or the mirror image",
    ),
)
