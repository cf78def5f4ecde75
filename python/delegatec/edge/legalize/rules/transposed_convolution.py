# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions by others.

With stride s, element o of a transposed convolution sums the operand's element i times tap t where
o = s * i + d * t (padding left aside). For each phase o mod s that is a convolution with every s-th tap,
backwards: phases with taps at the same elements are output channels of one convolution at the operand's
resolution. Others are separate convolutions: an added zero times infinity would be NaN. All are interleaved.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.convolution import ONE_OR_TWO_DIMENSIONS, Axis, axes_of, convolve
from delegatec.edge.legalize.value import Value, cat, full, table, value_of

aten = torch.ops.aten

_NONE: Final = -1
Taps = list[list[int]]
"""[taps of the convolution][phases]: which tap of the transposed one it is; -1 for a zero."""


def _transposed(builder: Builder, node: Node) -> Node | None:
    bound, axes, result_shape = bind(node), axes_of(node), shape_of(node)
    if not bound["transposed"]:
        return None
    x, groups, bias = value_of(builder, bound["input"]), bound["groups"], bound["bias"]
    sizes = shape_of(bound["weight"])[2:]
    taps = [_taps(size, axis.stride, axis.dilation) for size, axis in zip(sizes, axes, strict=True)]
    plans = [
        _forward(x.shape[dim], len(taps[dim - 2]), axis, result_shape[dim])
        for dim, axis in enumerate(axes, 2)
    ]
    apart = any(axis.stride > 1 for axis in axes)
    phases = [_phases(rows, plan.axis) for rows, plan in zip(taps, plans, strict=True)]
    lengths = [plan.outputs for plan in plans]

    def convolved(chosen: Sequence[_Phases]) -> Value:
        weight = _weight(builder, bound["weight"], groups, [phase.taps for phase in chosen])
        return convolve(x, weight, [phase.axis for phase in chosen], groups, None if apart else bias)

    def joined(chosen: list[_Phases]) -> Value:
        """Concatenates phases as [N, C, *strides, *lengths]."""
        if len(chosen) < len(phases):
            return cat([joined([*chosen, part]) for part in phases[len(chosen)]], 2 + len(chosen))
        shape = (x.shape[0], result_shape[1], *(phase.size for phase in chosen), *lengths)
        if not all(phase.taps for phase in chosen):
            return full(builder, shape, 0.0, x.dtype)
        return convolved(chosen).view(*shape)

    is_one = all(len(parts) == 1 for parts in phases)
    result = convolved([part for (part,) in phases]) if is_one else joined([])
    if apart:
        result = _interleaved(result, result_shape[1], [axis.stride for axis in axes], lengths)
        for dim, plan in enumerate(plans, 2):
            result = result.slice(dim, plan.first, plan.first + result_shape[dim])
        if bias is not None:
            result = result + value_of(builder, bias).view(1, result_shape[1], *(1,) * len(axes))
    return result.node


class _Plan(NamedTuple):
    """One dimension of a transposed convolution.

    Attributes:
        axis: geometry of the convolution that computes it.
        outputs: number of its results.
        first: first element of the result among the interleaved ones.
    """

    axis: Axis
    outputs: int
    first: int


def _forward(size: int, taps: int, axis: Axis, outputs: int) -> _Plan:
    if axis.stride == 1:
        reach = axis.dilation * (taps - 1)
        before = reach - axis.before
        return _Plan(Axis(1, axis.dilation, before, outputs - size + reach - before), outputs, 0)
    low, high = axis.before // axis.stride, (axis.before + outputs - 1) // axis.stride
    conv = Axis(1, 1, taps - 1 - low, high + 1 - size)
    return _Plan(conv, high + 1 - low, axis.before - low * axis.stride)


class _Phases(NamedTuple):
    """Successive phases of one dimension with taps at the same elements.

    Attributes:
        taps: those of the convolution that computes them; none if the phases are zero.
        size: number of phases.
        axis: geometry of the convolution.
    """

    taps: Taps
    size: int
    axis: Axis


def _phases(taps: Taps, axis: Axis) -> list[_Phases]:
    """Groups the phases of a convolution; the taps of each are equally spaced."""
    grouped: list[_Phases] = []
    for mask, columns in groupby(zip(*taps, strict=True), lambda column: [tap != _NONE for tap in column]):
        rows, chosen = [row for row, is_tap in enumerate(mask) if is_tap], list(columns)
        spaced = axis
        if rows:
            dilation = axis.dilation * (rows[1] - rows[0] if len(rows) > 1 else 1)
            before = axis.before - axis.dilation * rows[0]
            after = axis.after - axis.dilation * (len(taps) - 1 - rows[-1])
            spaced = Axis(1, dilation, before, after)
        grouped.append(_Phases([[column[row] for column in chosen] for row in rows], len(chosen), spaced))
    return grouped


def _interleaved(x: Value, channels: int, strides: Sequence[int], sizes: Sequence[int]) -> Value:
    """[N, C, *strides, *sizes], in any shape, as [N, C, *(sizes * strides)]."""
    count, batch = len(strides), x.shape[0]
    shape = (batch, channels, *(stride * size for stride, size in zip(strides, sizes, strict=True)))
    if count == 2 and strides[0] == strides[1]:
        x = x.view(batch, channels * strides[0] * strides[1], *sizes)
        shuffled = x.builder.call(aten.pixel_shuffle.default, x.node, strides[0])
        return Value(x.builder, shuffled)
    order = [dim for axis in range(count) for dim in (2 + count + axis, 2 + axis)]
    return x.view(batch, channels, *strides, *sizes).permute(0, 1, *order).view(*shape)


def _taps(size: int, stride: int, dilation: int) -> Taps:
    """Returns the taps of one dimension; with stride 1 the convolution has the dilation."""
    if stride == 1:
        return [[tap] for tap in reversed(range(size))]
    count = -(-(dilation * (size - 1) + 1) // stride)
    rows = [[_NONE] * stride for _ in range(count)]
    for tap in range(size):
        back, phase = divmod(tap * dilation, stride)
        rows[count - 1 - back][phase] = tap
    return rows


def _weight(builder: Builder, node: Node, groups: int, tables: Sequence[Taps]) -> Value:
    """[C, O / groups, *taps] as [O * phases, C / groups, *taps], with taps as the tables specify.

    A constant is arranged now, other weights at run time.
    """
    constant = builder.program.constants.get(node.name)
    if constant is None:
        arranged: Value = _arranged(value_of(builder, node), groups, tables)
        return arranged
    return value_of(builder, builder.derived(node, _arranged(constant.detach(), groups, tables)))


def _arranged(x: Any, groups: int, tables: Sequence[Taps]) -> Any:
    """Arranges a weight, a value or a tensor."""
    channels, outputs, *sizes = x.shape
    counts, phases = [len(rows) for rows in tables], [len(rows[0]) for rows in tables]
    reshape: Any = Tensor.reshape if isinstance(x, Tensor) else Value.view
    x = reshape(x, groups, channels // groups, outputs, *sizes)
    for axis, rows in enumerate(tables):
        # After the dimensions before it, which are a tap and a phase each by now.
        dim = 3 + 2 * axis
        index = torch.tensor(rows, dtype=torch.int32)
        if isinstance(x, Tensor):
            x = x[(slice(None),) * dim + (index,)]
        else:
            x = x.take(dim, table(x.builder, index))
    many = len(tables)
    order = [0, 2, *(4 + 2 * axis for axis in range(many)), 1, *(3 + 2 * axis for axis in range(many))]
    result_shape = (groups * outputs * torch.Size(phases).numel(), channels // groups, *counts)
    return reshape(x.permute(*order), *result_shape)


REWRITES: Final = (
    Rewrite(
        aten.convolution.default,
        _transposed,
        ONE_OR_TWO_DIMENSIONS,
        note="transposed: phases of the stride are output channels of convolutions with parts of the weight, "
        "then interleaved",
    ),
)
