# SPDX-License-Identifier: Apache-2.0
"""Interpolation of images and volumes, one dimension after the other.

Each element of the result is a weighted sum of a few elements of the operand. Elements and weights depend on
sizes only: they are constants if the sizes are. A product with a matrix of weights would not do, since its
zeros make NaN of infinities anywhere in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, dtype_of, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes
from delegatec.edge.legalize.rule import FunctionTable, Rewrite, Rule, RuleTable
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.rules.pooling import averages
from delegatec.edge.legalize.rules.resize import Dim, as_image, dims_of, operand_of
from delegatec.edge.legalize.rules.windows import Windows
from delegatec.edge.legalize.value import Value, table, value_of

aten = torch.ops.aten

# From this many elements on, one gather of all is cheaper than one per element.
_MANY: Final = 5
_CUBIC: Final = -0.75
"""The free coefficient of the cubic kernel (R. Keys, 1981) that ATen has."""


def near(x: Any, a: float = _CUBIC) -> Any:
    """Returns the cubic kernel at distances up to 1, of a tensor or a value."""
    return (x * (a + 2) - (a + 3)) * x * x + 1


def far(x: Any, a: float = _CUBIC) -> Any:
    """Returns the cubic kernel at distances from 1 to 2, of a tensor or a value."""
    return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a


# ---- normal form: sizes may vary -------------------------------------------------------------------------


def _bicubic2d(
    x: Tensor,
    output_size: Sequence[Any] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None,
) -> Tensor:
    for axis in (0, 1):
        dim, scale = axis - 2, None if scale_factors is None else scale_factors[axis]
        size = x.shape[dim]
        outputs = output_size[axis] if output_size is not None else int(size * scale)  # type: ignore[operator]
        x = _cubic_along(x, dim, outputs, align_corners, scale)
    return x


def _cubic_along(x: Tensor, dim: int, outputs: Any, align_corners: bool, scale: float | None) -> Tensor:
    """Computes each output as a weighted sum of the four nearest elements."""
    # Eager mode computes positions of float64 in float64, and of other dtypes in float32.
    size = x.shape[dim]
    position = torch.arange(outputs, dtype=torch.promote_types(x.dtype, torch.float32))
    if align_corners:
        position = position * ((size - 1) / torch.sym_max(outputs - 1, 1))  # type: ignore[no-untyped-call]
    else:
        position = (position + 0.5) * (size / outputs if scale is None else 1 / scale) - 0.5
    start = torch.floor(position)
    t = position - start
    form = [-1] + [1] * (-1 - dim)
    total: Tensor | None = None
    weights = (far(1 + t), near(t), near(1 - t), far(2 - t))
    for offset, weight in zip(range(-1, 3), weights, strict=True):
        index = torch.clamp((start + offset).to(torch.int64), min=0)
        index = torch.minimum(index, torch.full([], size - 1, dtype=torch.int64))
        part = torch.index_select(x, dim, index) * weight.reshape(form).to(x.dtype)
        total = part if total is None else total + part
    assert total is not None
    return total


# ---- constant weights -------------------------------------------------------------------------------------


class _Taps(NamedTuple):
    """For each output, its elements and their weights: int32 and the dtype of positions, [outputs, K]."""

    elements: torch.Tensor
    weights: torch.Tensor


def _scale(axis: Dim, align_corners: bool) -> torch.Tensor:
    """Returns the elements of the operand per element of the result, as ATen rounds it."""
    if align_corners:
        scale = (axis.size - 1) / (axis.outputs - 1) if axis.outputs > 1 else 0.0
    else:
        scale = 1 / axis.factor if axis.factor else axis.size / axis.outputs
    return torch.tensor(scale, dtype=axis.dtype)


def _centers(axis: Dim, align_corners: bool) -> torch.Tensor:
    """Returns the position in the operand of each element of the result."""
    output, scale = torch.arange(axis.outputs, dtype=axis.dtype), _scale(axis, align_corners)
    return output * scale if align_corners else (output + 0.5) * scale - 0.5


def _linear(axis: Dim, align_corners: bool) -> _Taps:
    center = _centers(axis, align_corners).clamp(min=0)
    low = center.floor().clamp(max=axis.size - 1)
    share = (center - low).clamp(0, 1)
    elements = torch.stack([low, (low + 1).clamp(max=axis.size - 1)], 1).to(torch.int32)
    return _Taps(elements, torch.stack([1 - share, share], 1))


def _cubic(axis: Dim, align_corners: bool) -> _Taps:
    center = _centers(axis, align_corners)
    elements = center.floor().unsqueeze(1) + torch.arange(-1, 3)
    weights = _keys((center.unsqueeze(1) - elements).abs())
    return _Taps(elements.clamp(0, axis.size - 1).to(torch.int32), weights)


def _antialiased(width: int, curve: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Dim, bool], _Taps]:
    """Weights by a curve that spans `width` elements of the result, or of the operand if that has fewer."""

    def taps(axis: Dim, align_corners: bool) -> _Taps:
        scale = _scale(axis, align_corners)
        reach = width * 0.5 * scale.clamp(min=1.0)
        center = (torch.arange(axis.outputs, dtype=axis.dtype) + 0.5) * scale
        first = (center - reach + 0.5).to(torch.int64).clamp(min=0)
        last = (center + reach + 0.5).to(torch.int64).clamp(max=axis.size) - 1
        tap = torch.arange(int((last - first).max()) + 1)
        elements = first.unsqueeze(1) + tap
        distance = (elements - center.unsqueeze(1) + 0.5) / scale.clamp(min=1.0)
        weights = curve(distance.abs()).where(elements <= last.unsqueeze(1), 0.0)
        weights = weights / weights.sum(1, keepdim=True)
        # Missing elements of a window repeat its last one and share its weight: infinity times zero would be
        # NaN.
        elements = elements.minimum(last.unsqueeze(1))
        same = (elements == last.unsqueeze(1)).to(axis.dtype)
        at_last = (weights * same).sum(1, keepdim=True) / same.sum(1, keepdim=True)
        return _Taps(elements.to(torch.int32), torch.where(same > 0, at_last, weights))

    return taps


def _triangle(distance: torch.Tensor) -> torch.Tensor:
    return (1 - distance).clamp(min=0)


def _keys(distance: torch.Tensor, a: float = _CUBIC) -> torch.Tensor:
    """Returns the cubic kernel of Keys."""
    return torch.where(distance < 1, near(distance, a), torch.where(distance < 2, far(distance, a), 0.0))


def _interpolated(taps: Callable[[Dim, bool], _Taps]) -> Rule:
    def rule(builder: Builder, node: Node) -> Node:
        x, align_corners = value_of(builder, operand_of(node)), bind(node)["align_corners"]
        axes = list(enumerate(dims_of(node), 2))
        # Dimensions that shrink come first: fewer elements remain for the others.
        for dim, axis in sorted(axes, key=lambda each: each[1].outputs / each[1].size):
            x = _weighted(x, dim, taps(axis, align_corners))
        return x.node

    return rule


def _weighted(x: Value, dim: int, taps: _Taps) -> Value:
    """Sums of elements of a dimension by their weights."""
    outputs, several = taps.elements.shape
    alone = taps.weights.where(taps.elements == torch.arange(outputs).unsqueeze(1), 0.0).sum(1) == 1
    if outputs == x.shape[dim] and alone.all():
        return x
    behind = (1,) * (x.rank - 1 - dim)
    weights = taps.weights.to(x.dtype)
    if several < _MANY:
        parts = (
            x.index_select(dim, table(x.builder, taps.elements[:, tap]))
            * table(x.builder, weights[:, tap].reshape(outputs, *behind))
            for tap in range(several)
        )
        return reduce(Value.__add__, parts)
    # The sum is an average pool of an image's rows or columns; the weights include its divisor.
    x = x.index_select(dim, table(x.builder, taps.elements.reshape(-1)))
    x = x * table(x.builder, (weights * several).view(-1, *behind))
    other = Windows(x.shape[5 - dim], x.shape[5 - dim], kernel=1, stride=1)
    windows = Windows(x.shape[dim], outputs, kernel=several, stride=several)
    return averages(x, *((windows, other) if dim == 2 else (other, windows)))


def _of_fractions(rule: Rule) -> Rule:
    """Restricts a rule to floating point of static size: eager mode has integer weights for bytes."""

    def restricted(builder: Builder, node: Node) -> Node | None:
        sizes = (*shape_of(operand_of(node)), *shape_of(node))
        if not dtype_of(node).is_floating_point or not all(isinstance(size, int) for size in sizes):
            return None
        result: Node = rule(builder, node)
        return result

    return restricted


_SMOOTH: Final = {
    aten.upsample_bilinear2d.vec: _linear,
    aten.upsample_trilinear3d.vec: _linear,
    aten.upsample_bicubic2d.vec: _cubic,
    aten._upsample_bilinear2d_aa.default: _antialiased(2, _triangle),
    aten._upsample_bicubic2d_aa.vec: _antialiased(4, partial(_keys, a=-0.5)),
}

RULES: Final[RuleTable] = {
    # without a kernel in the runtime
    aten._upsample_bicubic2d_aa.vec: _of_fractions(_interpolated(_SMOOTH[aten._upsample_bicubic2d_aa.vec])),
    aten.upsample_linear1d.vec: as_image(aten.upsample_bilinear2d.vec),
}

FUNCTIONS: Final[FunctionTable] = {aten.upsample_bicubic2d.vec: _bicubic2d}

REWRITES: Final = tuple(
    Rewrite(
        target,
        _interpolated(taps),
        (operand_dtypes(FLOATS, "weights are fractional.", "convert to float32"),),
        note="one dimension after the other, by constant weights; not along those that keep their size, "
        "where eager multiplies neighbors by 0, which is NaN for an infinity",
        preserved=True,
    )
    for target, taps in _SMOOTH.items()
)
