# SPDX-License-Identifier: Apache-2.0
"""Convolutions, for targets that have those over images, not transposed, with short kernels.

With stride s, element o of a transposed convolution sums the operand's element i times tap t where
o = s * i + d * t (padding left aside). For each phase o mod s that is a convolution with every s-th tap,
backwards: phases with taps at the same elements are output channels of one convolution at the operand's
resolution. Others are separate convolutions: an added zero times infinity would be NaN. All are interleaved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import bind, each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.constraints import operand_dtypes, rank_of
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.rules.padding import padded
from delegatec.edge.legalize.rules.pointwise import FLOATS
from delegatec.edge.legalize.value import Value, cat, full, table, value_of

aten = torch.ops.aten

MOST_TAPS: Final = 255
"""Longest kernel in a dimension."""
_NONE: Final = -1
Taps = list[list[int]]
"""[taps of the convolution][phases]: which tap of the transposed one it is; -1 for a zero."""


class Axis(NamedTuple):
    """Geometry of a convolution along one dimension; a negative padding removes elements."""

    stride: int
    dilation: int
    before: int
    after: int


def axes_of(node: Node) -> list[Axis]:
    """Returns the geometry along each spatial dimension."""
    bound = bind(node)
    spatial = len(shape_of(bound["weight"])) - 2

    sizes = zip(*(each(bound[name], spatial) for name in ("stride", "dilation", "padding")), strict=True)
    return [Axis(stride, dilation, padding, padding) for stride, dilation, padding in sizes]


def _convolve(x: Value, weight: Value, axes: Sequence[Axis], groups: int, bias: Node | None = None) -> Value:
    """Convolves; other padding than the same amount on both sides is a separate call."""
    padding = []
    for dim, axis in enumerate(axes, 2):
        is_equal = axis.before == axis.after >= 0
        padding.append(axis.before if is_equal else 0)
        x = x if is_equal else padded(x, dim, axis.before, axis.after)
    outputs = [weight.shape[0]]
    for dim, axis in enumerate(axes, 2):
        reach = axis.dilation * (weight.shape[dim] - 1) + 1
        outputs.append((x.shape[dim] + 2 * padding[dim - 2] - reach) // axis.stride + 1)
    strides, dilations = ([getattr(axis, name) for axis in axes] for name in ("stride", "dilation"))
    result = x.builder.call(
        aten.convolution.default,
        *(x.node, weight.node, bias, strides, padding, dilations, False, [0] * len(axes), groups),
        val=x.builder.empty((x.shape[0], *outputs), x.dtype),
    )
    return Value(x.builder, result)


# ---- long kernels ----------------------------------------------------------------------------------------


def _in_parts(builder: Builder, node: Node) -> Node | None:
    """Adds the convolutions with the parts of a long kernel."""
    bound, axes, whole = bind(node), axes_of(node), shape_of(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    long = [dim for dim in range(2, weight.rank) if weight.shape[dim] > MOST_TAPS]
    if not long or bound["transposed"]:
        return None
    dim, axis = long[0], axes[long[0] - 2]
    # What overflows grows with the batch as well.
    most = max(MOST_TAPS // x.shape[0], 16)
    parts: list[Value] = []
    for first in range(0, weight.shape[dim], most):
        last = min(first + most, weight.shape[dim])
        begin = first * axis.dilation - axis.before
        end = begin + (whole[dim] - 1) * axis.stride + axis.dilation * (last - first - 1) + 1
        moved = [*axes]
        moved[dim - 2] = axis._replace(before=-begin, after=end - x.shape[dim])
        bias = None if parts else bound["bias"]
        parts.append(_convolve(x, weight.slice(dim, first, last), moved, bound["groups"], bias))
    return reduce(Value.__add__, parts).node


# ---- one dimension ---------------------------------------------------------------------------------------


def _as_image(builder: Builder, node: Node) -> Node | None:
    """Convolves a row as an image of one row; its padding by a separate call stays next to it."""
    bound = bind(node)
    x, weight = value_of(builder, bound["input"]), value_of(builder, bound["weight"])
    if weight.rank != 3 or bound["transposed"]:
        return None
    pads = zero_padding(x.node)
    if pads is not None:
        x = value_of(builder, x.node.all_input_nodes[0])
    x, weight = (each.view(*each.shape[:2], 1, each.shape[2]) for each in (x, weight))
    x = x if pads is None else padded(x, 3, *pads[-1])
    (axis,) = axes_of(node)
    result = _convolve(x, weight, [Axis(1, 1, 0, 0), axis], bound["groups"], bound["bias"])
    return result.view(*shape_of(node)).node


def zero_padding(node: Node) -> list[tuple[int, int]] | None:
    """Returns the zeros before and after each spatial dimension, if a node only adds such; else None."""
    if node.target is not aten.constant_pad_nd.default:
        return None
    bound, rank = bind(node), len(shape_of(node))
    pairs = list(zip(bound["pad"][::2], bound["pad"][1::2], strict=True))[::-1]
    if bound["value"] or len(pairs) > rank - 2 or min(bound["pad"], default=0) < 0:
        return None
    return [(0, 0)] * (rank - 2 - len(pairs)) + pairs


# ---- transposed ------------------------------------------------------------------------------------------


def _transposed(builder: Builder, node: Node) -> Node | None:
    bound, axes, whole = bind(node), axes_of(node), shape_of(node)
    if not bound["transposed"]:
        return None
    x, groups, bias = value_of(builder, bound["input"]), bound["groups"], bound["bias"]
    sizes = shape_of(bound["weight"])[2:]
    taps = [_taps(size, axis.stride, axis.dilation) for size, axis in zip(sizes, axes, strict=True)]
    plans = [_forward(x.shape[dim], len(taps[dim - 2]), axis, whole[dim]) for dim, axis in enumerate(axes, 2)]
    apart = any(axis.stride > 1 for axis in axes)
    phases = [_phases(rows, plan.axis) for rows, plan in zip(taps, plans, strict=True)]
    lengths = [plan.outputs for plan in plans]

    def convolved(chosen: Sequence[_Phases]) -> Value:
        weight = _weight(builder, bound["weight"], groups, [phase.taps for phase in chosen])
        return _convolve(x, weight, [phase.axis for phase in chosen], groups, None if apart else bias)

    def joined(chosen: list[_Phases]) -> Value:
        """Concatenates phases as [N, C, *strides, *lengths]."""
        if len(chosen) < len(phases):
            return cat([joined([*chosen, part]) for part in phases[len(chosen)]], 2 + len(chosen))
        shape = (x.shape[0], whole[1], *(phase.size for phase in chosen), *lengths)
        if not all(phase.taps for phase in chosen):
            return full(builder, shape, 0.0, x.dtype)
        return convolved(chosen).view(*shape)

    is_one = all(len(parts) == 1 for parts in phases)
    result = convolved([part for (part,) in phases]) if is_one else joined([])
    if apart:
        result = _interleaved(result, whole[1], [axis.stride for axis in axes], lengths)
        for dim, plan in enumerate(plans, 2):
            result = result.slice(dim, plan.first, plan.first + whole[dim])
        if bias is not None:
            result = result + value_of(builder, bias).view(1, whole[1], *(1,) * len(axes))
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
    for places, columns in groupby(zip(*taps, strict=True), lambda column: [tap != _NONE for tap in column]):
        rows, chosen = [row for row, is_tap in enumerate(places) if is_tap], list(columns)
        spaced = axis
        if rows:
            step = axis.dilation * (rows[1] - rows[0] if len(rows) > 1 else 1)
            before = axis.before - axis.dilation * rows[0]
            after = axis.after - axis.dilation * (len(taps) - 1 - rows[-1])
            spaced = Axis(1, step, before, after)
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
        places = torch.tensor(rows, dtype=torch.int32)
        if isinstance(x, Tensor):
            x = x[(slice(None),) * dim + (places,)]
        else:
            x = x.take(dim, table(x.builder, places))
    many = len(tables)
    order = [0, 2, *(4 + 2 * axis for axis in range(many)), 1, *(3 + 2 * axis for axis in range(many))]
    whole = (groups * outputs * torch.Size(phases).numel(), channels // groups, *counts)
    return reshape(x.permute(*order), *whole)


_RULES: Final = (
    operand_dtypes(FLOATS, "it is computed in floating point.", "convert to float32"),
    rank_of("weight", (3, 4), "it has one or two spatial dimensions."),
)

REWRITES: Final = (
    Rewrite(
        aten.convolution.default,
        _transposed,
        _RULES,
        note="transposed: phases of the stride are output channels of convolutions with parts of the weight, "
        "then interleaved",
    ),
    Rewrite(aten.convolution.default, _in_parts, _RULES, note="a long kernel in parts that are added"),
    Rewrite(aten.convolution.default, _as_image, _RULES, note="a row as an image of one row"),
)
