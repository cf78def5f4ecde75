# SPDX-License-Identifier: Apache-2.0
"""Convolution."""

from __future__ import annotations

from typing import Final

from delegatec_schemas.mps_graph import ConvolutionT, Operation
from torch.fx import Node

from delegatec.backends.mps.graph_builder import GraphBuilder
from delegatec.backends.mps.operators.arguments import shape_of
from delegatec.backends.mps.operators.family import overload
from delegatec.backends.mps.operators.row import OperatorRow
from delegatec.backends.mps.operators.rules import FLOAT_OPERANDS, argument, rank_of, same_dtypes
from delegatec.edge.arguments import bind


def _convolution(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    weight = shape_of(bound["weight"])
    channels = shape_of(bound["input"])[1]
    # One filter a channel. With several, or in one dimension, the runtime's depthwise path does not apply.
    depthwise = len(weight) == 4 and bound["groups"] == channels == weight[0] > 1

    def across(name: str, fill: int) -> tuple[int, int]:
        values = list(bound[name])
        wanted = len(weight) - 2
        values = values * wanted if len(values) == 1 else values
        return (fill, values[0]) if wanted == 1 else (values[0], values[1])

    stride, dilation, padding = across("stride", 1), across("dilation", 1), across("padding", 0)
    table = ConvolutionT(
        input1Id=b.of(bound["input"]),
        input2Id=b.of(bound["weight"]),
        input3Id=-1 if bound["bias"] is None else b.of(bound["bias"]),
        outputId=b.result(node),
        strideX=stride[1],
        strideY=stride[0],
        dilationX=dilation[1],
        dilationY=dilation[0],
        groups=bound["groups"],
        paddingLeft=padding[1],
        paddingRight=padding[1],
        paddingTop=padding[0],
        paddingBottom=padding[0],
    )
    b.emit(Operation.DepthwiseConv2D if depthwise else Operation.Conv2D, table)


ROWS: Final = (
    OperatorRow(
        overload("convolution"),
        ("Conv2D", "DepthwiseConv2D"),
        _convolution,
        (
            FLOAT_OPERANDS,
            same_dtypes(),
            rank_of("weight", (3, 4), "the format has convolutions in one and two dimensions."),
            argument(
                "transposed", lambda value: not value, "Not transposed: the format has no such operation."
            ),
            argument("padding", lambda value: min(value) >= 0, "Padding is not negative."),
        ),
        note="depthwise if each channel has a filter of its own, and one only",
    ),
)
