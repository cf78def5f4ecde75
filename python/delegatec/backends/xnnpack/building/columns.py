# SPDX-License-Identifier: Apache-2.0
"""Layers whose input is dynamically quantized with one scale.

The runtime quantizes per row for a fully connected layer, and per image for a convolution. It turns a 1 x 1
convolution without a stride into a fully connected layer. So the rows become the pixels of an image of one
column, [1, rows, 1, inputs], and a convolution reads it with a horizontal stride of 2: the products are those
of the fully connected layer, in one scale.

Source: XNNPACK's subgraph/convolution-2d.c and operators/convolution-nhwc.c.
"""

from __future__ import annotations

from typing import Final

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.layers import FilterForm, quantized_operands
from delegatec.backends.xnnpack.building.operations import reshaped
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.edge.arguments import bind, shape_of

_STRIDE: Final = (1, 2)


def column_layer(b: QuantizedBuilder, node: Node, x: Node) -> int:
    """Emits a linear layer, or a dense convolution with a 1 x 1 kernel; returns its result, float32.

    Args:
        b: the builder.
        node: the layer; its weight has no groups.
        x: its input, [..., inputs], dynamically quantized.
    """
    outputs, inputs, *_ = shape_of(bind(node)["weight"])
    filter = FilterForm("column", lambda weight: weight.flatten(1), (outputs, 1, 1, inputs), is_column=True)
    operands = quantized_operands(b, node, x, filter)
    assert operands is not None
    _, rows, _, _ = b.shape_of(operands.x)
    out = b.temporary((1, rows, 1, outputs), torch.float32)
    fields = (1, 1, *_STRIDE, 1, 1, inputs, outputs, 1, 0, 0)
    b.emit(Operation.Convolution, schema.ConvolutionT(0, 0, 0, 0, *fields, *operands, out, 0))
    return reshaped(b, out, node.meta["val"].shape)
