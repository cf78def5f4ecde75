# SPDX-License-Identifier: Apache-2.0
"""Resizing of images by a channels-last operator with rational positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import torch
from torch._ops import OpOverload
from torch.fx import Node

from delegatec.edge.arguments import bind
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.convolutions import FLOATS
from delegatec.edge.channels_last.rewrites.images import emit, in_images
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import Rewrite, Rule
from delegatec.edge.legalize.rules.resize import Dim, dims_of, nearest_elements, operand_of
from delegatec.edge.legalize.value import Value, value_of

aten = torch.ops.aten

_LARGEST: Final = 1 << 11
"""Of numerators: TOSA 1.0."""
# A position that is off by this fraction of an element changes the result by no more than rounding does.
_TOLERANCE: Final = 1e-5


class Axis(NamedTuple):
    """How one dimension is resized.

    The position of output o is `(o * denominator + offset) / numerator`.
    """

    numerator: int
    denominator: int
    offset: int
    border: int

    @staticmethod
    def at(size: int, outputs: int, scale: Fraction, first: Fraction) -> Axis | None:
        """Returns that with a distance between positions, and the first one; None if it is out of range."""
        numerator = math.lcm(scale.denominator, first.denominator)
        denominator, offset = int(scale * numerator), int(first * numerator)
        border = (outputs - 1) * denominator - (size - 1) * numerator + offset
        axis = Axis(numerator, denominator, offset, border)
        return axis if axis.is_valid() else None

    def is_valid(self) -> bool:
        """Whether it is within the limits of TOSA 1.0."""
        n = self.numerator
        limits = (-n <= self.offset < 16 * n, -16 * n <= self.border < n, self.denominator < 16 * n)
        return 0 < n <= _LARGEST and all(limits)

    def positions(self, outputs: int) -> torch.Tensor:
        """Returns the position of each output: float64."""
        positions = torch.arange(outputs) * self.denominator + self.offset
        return positions.to(torch.float64) / self.numerator


def _scales(dim: Dim) -> Iterator[Fraction]:
    """Yields the ratio of sizes, and the one by the factor."""
    if dim.factor:
        yield Fraction(1 / dim.factor).limit_denominator(_LARGEST // 2)
        yield 1 / Fraction(dim.factor).limit_denominator(_LARGEST // 2)
    yield Fraction(dim.size, dim.outputs)


def resize(x: Value, sizes: Sequence[int], axes: Sequence[Axis], mode: str) -> Value:
    """Resizes [N, H, W, C] to some rows and columns."""
    dtype = x.dtype
    if mode == "bilinear" and not dtype.is_floating_point:
        dtype = torch.int32 if dtype == torch.int8 else torch.int64
    scale = [term for axis in axes for term in (axis.numerator, axis.denominator)]
    offset, border = [axis.offset for axis in axes], [axis.border for axis in axes]
    shape = (x.shape[0], *sizes, x.shape[3])
    return emit(NHWC.resize.default, x, scale, offset, border, mode, shape=shape, dtype=dtype)


def _rule(mode: str, axis_of: Callable[[Node, Dim], Axis | None]) -> Rule:
    def rule(builder: Builder, node: Node) -> Node | None:
        axes = _axes(node, axis_of)
        if axes is None:
            return None
        x = value_of(builder, operand_of(node))
        return _resized(x, node, axes, mode, lambda found: found).node

    return rule


def linear_axes(node: Node) -> list[Axis] | None:
    """Returns how linear interpolation resizes each dimension; None if the operator has no such positions."""
    return _axes(node, _linear)


def interpolated(x: Value, node: Node, axes: Sequence[Axis], finish: Callable[[Value], Value]) -> Value:
    """Returns the result of a call of linear interpolation.

    Args:
        x: the images, [N, C, ...].
        node: the call.
        axes: its dimensions, see `linear_axes`.
        finish: is applied to the result of the operator, before it is moved.
    """
    return _resized(x, node, axes, "bilinear", finish)


def _axes(node: Node, axis_of: Callable[[Node, Dim], Axis | None]) -> list[Axis] | None:
    axes = [axis_of(node, dim) for dim in dims_of(node)]
    found = [axis for axis in axes if axis is not None]
    return found if len(found) == len(axes) else None


def _resized(
    x: Value, node: Node, axes: Sequence[Axis], mode: str, finish: Callable[[Value], Value]
) -> Value:
    sizes = [dim.outputs for dim in dims_of(node)]
    if len(sizes) == 1:
        sizes, axes = [1, *sizes], [Axis(1, 1, 0, 0), *axes]
    return in_images(x, lambda images: finish(resize(images, sizes, axes, mode)))


def _nearest(target: OpOverload, shift: Fraction) -> Rule:
    """Returns the rule; `target`, the operator for one dimension, selects the elements by ATen's rounding.

    The runtime rounds positions to the nearest element, a half upward: floor(p) is at p - 1/2.
    """

    def axis_of(_: Node, dim: Dim) -> Axis | None:
        elements = nearest_elements(target, dim)
        for scale in _scales(dim):
            axis = Axis.at(dim.size, dim.outputs, scale, scale * shift - Fraction(1, 2))
            if axis is None:
                continue
            chosen = torch.arange(dim.outputs) * (2 * axis.denominator) + 2 * axis.offset + axis.numerator
            chosen = torch.div(chosen, 2 * axis.numerator, rounding_mode="floor").clamp(0, dim.size - 1)
            if torch.equal(chosen, elements):
                return axis
        return None

    return _rule("nearest", axis_of)


def _linear(node: Node, dim: Dim) -> Axis | None:
    size, outputs = dim.size, dim.outputs
    if bind(node)["align_corners"]:
        if outputs == 1 or size == 1:
            scale = Fraction(1, outputs)
        else:
            scale = Fraction(size - 1, outputs - 1)
        return Axis.at(size, outputs, scale, Fraction(0))
    for scale in _scales(dim):
        wanted = 1 / dim.factor if dim.factor else size / outputs
        axis = Axis.at(size, outputs, scale, scale / 2 - Fraction(1, 2))
        if axis is not None and abs(wanted - scale) * outputs < _TOLERANCE:
            return axis
    return None


_HALF: Final = Fraction(1, 2)
_NEAREST: Final = (
    (aten.upsample_nearest1d.default, Fraction(0), (aten.upsample_nearest1d, aten.upsample_nearest2d)),
    (
        aten._upsample_nearest_exact1d.default,
        _HALF,
        (aten._upsample_nearest_exact1d, aten._upsample_nearest_exact2d),
    ),
)
_NOTE: Final = "channels last, if a fraction with a numerator below 2048 has ATen's positions"

REWRITES: Final = (
    *(
        Rewrite(target, _nearest(in_one_dimension, shift), note=_NOTE, preserved=True)
        for in_one_dimension, shift, packets in _NEAREST
        for packet in packets
        for target in (packet.default, packet.vec)
    ),
    *(
        Rewrite(
            target,
            _rule("bilinear", _linear),
            (operand_dtypes(FLOATS, "weights are fractional.", "convert to float32"),),
            note=_NOTE,
            preserved=True,
        )
        for packet in (aten.upsample_linear1d, aten.upsample_bilinear2d)
        for target in (packet.default, packet.vec)
    ),
)
