# SPDX-License-Identifier: Apache-2.0
"""Convolution.

Bugs in MPSGraph, from PyTorch's MPS backend: more than 2^16 output channels before macOS 15.1
(pytorch#129207), and kernels of 256 and more in one dimension (pytorch#188335).
"""

from __future__ import annotations

from typing import Final

from delegatec_schemas.mps_graph import ConvolutionT, Operation
from torch.fx import Node

from delegatec.backends.common.row import overload
from delegatec.backends.mps.building.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.row import Constraint, OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, SAME_DTYPES
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.legalize.constraints import argument, rank_of
from delegatec.edge.legalize.rules.convolution import Axis, axes_of, zero_padding
from delegatec.edge.legalize.rules.convolution_in_parts import MOST_TAPS

_MOST_CHANNELS: Final = 2**16


def _is_depthwise(node: Node) -> bool:
    """Whether each channel has one filter; with several the runtime's depthwise path does not apply."""
    bound = bind(node)
    return bool(bound["groups"] == shape_of(bound["input"])[1] == shape_of(bound["weight"])[0] > 1)


def _convolution(b: GraphBuilder, node: Node) -> None:
    """Includes zero padding of the operand: the format has amounts before and after."""
    bound, axes = bind(node), axes_of(node)
    source = bound["input"]
    pads = zero_padding(source) if b.computes(source) else None
    if pads is not None:
        source = bind(source)["self"]
        axes = [
            axis._replace(before=axis.before + before, after=axis.after + after)
            for axis, (before, after) in zip(axes, pads, strict=True)
        ]
    rows, columns = [Axis(1, 1, 0, 0), *axes][-2:]
    table = ConvolutionT(
        input1Id=b.of(source),
        input2Id=b.of(bound["weight"]),
        input3Id=-1 if bound["bias"] is None else b.of(bound["bias"]),
        outputId=b.result(node),
        strideX=columns.stride,
        strideY=rows.stride,
        dilationX=columns.dilation,
        dilationY=rows.dilation,
        groups=bound["groups"],
        paddingLeft=columns.before,
        paddingRight=columns.after,
        paddingTop=rows.before,
        paddingBottom=rows.after,
    )
    b.emit(Operation.DepthwiseConv2D if _is_depthwise(node) else Operation.Conv2D, table)


def _many_channels(node: Node, _: object) -> str | None:
    channels = shape_of(node)[1]
    return f"{channels} output channels" if channels > _MOST_CHANNELS else None


def _long_kernel(node: Node, _: object) -> str | None:
    longest = max(shape_of(bind(node)["weight"])[2:])
    return f"a kernel of {longest}" if longest > MOST_TAPS else None


def _depthwise_row(node: Node, _: object) -> str | None:
    return "one dimension" if len(shape_of(node)) == 3 and _is_depthwise(node) else None


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
                "At most 2^16 output channels: others are wrong before macOS 15.1 and iOS 18.1.",
                _many_channels,
                "split the weight",
            ),
            argument(
                "transposed", lambda value: not value, "The format does not have transposed convolutions."
            ),
            Constraint("size", "MPSGraph computes longer kernels than 255 wrongly.", _long_kernel),
            Constraint("rank", "Depthwise in two dimensions: the runtime aborts on one.", _depthwise_row),
        ),
        note="depthwise if each channel has one filter; zeros around the operand are its padding",
    ),
)
