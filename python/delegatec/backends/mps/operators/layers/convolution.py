# SPDX-License-Identifier: Apache-2.0
"""Convolution.

What MPSGraph gets wrong is from PyTorch's MPS backend: more than 2^16 output channels before macOS 15.1
(pytorch#129207), and kernels of 256 and more in one dimension (pytorch#188335).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from delegatec_schemas.mps_graph import ConvolutionT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.expression import Expression
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.building.values import operand
from delegatec.backends.mps.operators.layers import transposed_weight
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind
from delegatec.edge.legalize.constraints import rank_of
from delegatec.edge.nodes import shape_of

_MOST_CHANNELS: Final = 2**16
_MOST_TAPS: Final = 255


class Axis(NamedTuple):
    """Geometry of a convolution along one dimension; a negative padding takes elements away."""

    stride: int
    dilation: int
    before: int
    after: int


def _axes(bound: dict[str, Any]) -> list[Axis]:
    spatial = len(shape_of(bound["weight"])) - 2

    def each(name: str) -> list[int]:
        values = list(bound[name])
        return values * spatial if len(values) == 1 else values

    sizes = zip(each("stride"), each("dilation"), each("padding"), strict=True)
    return [Axis(stride, dilation, padding, padding) for stride, dilation, padding in sizes]


def convolve(
    x: Expression, weight: Expression, axes: Sequence[Axis], groups: int, bias: int = -1
) -> Expression:
    """A convolution over one or two dimensions.

    Args:
        x: [N, C, *sizes].
        weight: [O, C / groups, *taps].
        axes: geometry, for each of the last dimensions.
        groups: of channels.
        bias: id of a value [O]; -1 for none.
    """
    rank = len(weight.shape)
    outputs = list(weight.shape[:1])
    for dim, axis in enumerate(axes, 2):
        reach = axis.dilation * (weight.shape[dim] - 1) + 1
        outputs.append((x.shape[dim] + axis.before + axis.after - reach) // axis.stride + 1)
    for dim, axis in enumerate(axes, 2):
        x = x.slice(dim, max(-axis.before, 0), x.shape[dim] - max(-axis.after, 0))
    # One filter a channel; with several the runtime's depthwise path does not apply.
    depthwise = groups == x.shape[1] == weight.shape[0] > 1
    if depthwise and rank == 3:  # It stops at one dimension.
        image, kernel = (each.view(*each.shape[:2], 1, each.shape[2]) for each in (x, weight))
        none = Axis(1, 1, 0, 0)
        inside = Axis(axes[0].stride, axes[0].dilation, max(axes[0].before, 0), max(axes[0].after, 0))
        return convolve(image, kernel, [none, inside], groups, bias).view(x.shape[0], *outputs)
    rows, columns = ([Axis(1, 1, 0, 0)] * (4 - rank) + list(axes))[-2:]
    out = x.builder.temporary((x.shape[0], *outputs), x.dtype)
    table = ConvolutionT(
        input1Id=x.id,
        input2Id=weight.id,
        input3Id=bias,
        outputId=out,
        strideX=columns.stride,
        strideY=rows.stride,
        dilationX=columns.dilation,
        dilationY=rows.dilation,
        groups=groups,
        paddingLeft=max(columns.before, 0),
        paddingRight=max(columns.after, 0),
        paddingTop=max(rows.before, 0),
        paddingBottom=max(rows.after, 0),
    )
    x.builder.emit(Operation.DepthwiseConv2D if depthwise else Operation.Conv2D, table)
    return Expression(x.builder, out)


def _in_parts(
    x: Expression, weight: Expression, axes: Sequence[Axis], groups: int, bias: int, whole: Sequence[int]
) -> Expression:
    """The sum of convolutions with parts of a long kernel; `whole` has the sizes of the result."""
    long = [dim for dim in range(2, len(weight.shape)) if weight.shape[dim] > _MOST_TAPS]
    if not long:
        return convolve(x, weight, axes, groups, bias)
    dim = long[0]
    axis, taps = axes[dim - 2], weight.shape[dim]
    # What overflows grows with the batch as well.
    most = max(_MOST_TAPS // x.shape[0], 16)
    total: Expression | None = None
    for first in range(0, taps, most):
        last = min(first + most, taps)
        begin = first * axis.dilation - axis.before
        end = begin + (whole[dim] - 1) * axis.stride + axis.dilation * (last - first - 1) + 1
        moved = axis._replace(before=-begin, after=end - x.shape[dim])
        part = _in_parts(
            x,
            weight.slice(dim, first, last),
            [moved if other == dim else axes[other - 2] for other in range(2, len(weight.shape))],
            groups,
            bias if first == 0 else -1,
            whole,
        )
        total = part if total is None else total + part
    assert total is not None
    return total


def _convolution(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    if bound["transposed"]:
        _transposed(b, node)
        return
    x, weight = operand(b, bound["input"]), operand(b, bound["weight"])
    bias = -1 if bound["bias"] is None else b.of(bound["bias"])
    _in_parts(x, weight, _axes(bound), bound["groups"], bias, shape_of(node)).bind(node)


def _transposed(b: GraphBuilder, node: Node) -> None:
    """A convolution at the operand's resolution that computes all phases of the stride as channels."""
    bound, axes, whole = bind(node), _axes(bind(node)), shape_of(node)
    x, groups, bias = operand(b, bound["input"]), bound["groups"], bound["bias"]
    taps = [
        transposed_weight.taps(size, axis.stride, axis.dilation)
        for size, axis in zip(shape_of(bound["weight"])[2:], axes, strict=True)
    ]
    weight = transposed_weight.arranged(b, bound["weight"], groups, taps)
    plans = [_forward(x.shape[dim], len(taps[dim - 2]), axis, whole[dim]) for dim, axis in enumerate(axes, 2)]
    shape = [x.shape[0], weight.shape[0], *(plan.outputs for plan in plans)]
    apart = any(axis.stride > 1 for axis in axes)
    here = -1 if bias is None or apart else b.of(bias)
    result = _in_parts(x, weight, [plan.axis for plan in plans], groups, here, shape)
    if apart:
        result = _interleaved(result, [axis.stride for axis in axes])
        for dim, plan in enumerate(plans, 2):
            result = result.slice(dim, plan.first, plan.first + whole[dim])
        if bias is not None:
            result = result + operand(b, bias).view(1, whole[1], *(1,) * len(axes))
    result.bind(node)


class _Plan(NamedTuple):
    """One dimension of a transposed convolution.

    Attributes:
        axis: geometry of the convolution that computes it.
        outputs: how many elements that gives.
        first: of the elements with phases in line, the first that is wanted.
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
    forward = Axis(1, 1, taps - 1 - low, high + 1 - size)
    return _Plan(forward, high + 1 - low, axis.before - low * axis.stride)


def _interleaved(x: Expression, strides: Sequence[int]) -> Expression:
    """[N, C * strides, *sizes] as [N, C, *(sizes * strides)]."""
    if len(strides) == 2 and strides[0] == strides[1]:
        return x.pixel_shuffle(strides[0])
    count = len(strides)
    batch, channels, *sizes = x.shape
    for stride in strides:
        channels //= stride
    order = [dim for axis in range(count) for dim in (2 + count + axis, 2 + axis)]
    apart = x.view(batch, channels, *strides, *sizes).permute(0, 1, *order)
    return apart.view(batch, channels, *(s * n for s, n in zip(strides, sizes, strict=True)))


def _many_channels(node: Node, _: object) -> str | None:
    bound = bind(node)
    channels = shape_of(node)[1]
    if bound["transposed"]:
        for axis in _axes(bound):
            channels *= axis.stride
    return f"{channels} output channels" if channels > _MOST_CHANNELS else None


ROWS: Final = (
    OperatorRow(
        overload("convolution"),
        _convolution,
        (
            FLOAT_OPERANDS,
            SAME_DTYPES,
            rank_of("weight", (3, 4), "the format has convolutions in one and two dimensions."),
            Constraint(
                "size",
                "2^16 output channels at most, times the strides if transposed: MPSGraph computes those "
                "beyond wrongly before macOS 15.1 and iOS 18.1.",
                _many_channels,
                "split the weight",
            ),
        ),
        note="depthwise if each channel has a filter of its own, and one only; transposed: all phases of the "
        "stride are output channels of one convolution with a rearranged weight, then interleaved; "
        "a kernel of 256 and more in a dimension, which MPSGraph computes wrongly, in parts that are added",
    ),
)
