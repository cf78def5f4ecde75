# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with kernels that are too large for XNNPACK's, as sums of smaller ones."""

from __future__ import annotations

import functools

import torch
from delegatec_schemas import xnnpack_graph as schema
from delegatec_schemas.xnnpack_graph import Operation
from torch.fx import Node

from delegatec.backends.xnnpack.building.operations import binary
from delegatec.backends.xnnpack.building.pieces import Axis, Piece, pieces
from delegatec.backends.xnnpack.building.quantized_builder import QuantizedBuilder
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.edge.arguments import bind, shape_of


def convolve_in_parts(b: QuantizedBuilder, node: Node) -> None:
    """Emits the sum of the parts of a depthwise convolution, the first of which adds the bias."""
    bound, value = bind(node), node.meta["val"]
    weight, bias = bound["weight"], NO_VALUE
    channels, _, *kernel = shape_of(weight)
    height, width = (1, *kernel)[-2:]
    top, bottom, left, right = bound["padding"]
    down, across = bound["dilation"]
    # The runtime refuses float16, and rounds float32 to float16 when it packs them.
    is_wide = value.dtype == torch.float16
    if bound["bias"] is not None:
        bias = b.arranged(bound["bias"], "bias", torch.Tensor.detach, (channels,), is_wide)
    total: int | None = None
    for part in pieces(
        Axis(height, top // down, bottom // down), Axis(width, left // across, right // across)
    ):
        rows, columns = part
        arrange = functools.partial(_taps_of, part)
        shape = (1, rows.number, columns.number, channels)
        filter = b.arranged(weight, ("depthwise", part), arrange, shape, is_wide)
        above, below = rows.padding((top, bottom), height, down)
        before, after = columns.padding((left, right), width, across)
        dilation = (rows.step * down, columns.step * across)
        fields = (rows.number, columns.number, *bound["stride"], *dilation, 1, 1, channels, 0, 0)
        out = b.temporary(value.shape, value.dtype)
        operands = (b.of(bound["x"]), filter, bias if total is None else NO_VALUE, out)
        table = schema.ConvolutionT(above, after, below, before, *fields, *operands, 0)
        b.emit(Operation.DepthwiseConvolution, table)
        total = out if total is None else binary(b, Operation.Add, total, out)
    assert total is not None
    b.alias(node, total)


def _taps_of(part: Piece, weight: torch.Tensor) -> torch.Tensor:
    """Returns the taps of a part of a weight, channels last."""
    planes = weight if weight.dim() == 4 else weight.unsqueeze(2)
    return part.columns.of(part.rows.of(planes, -2), -1).movedim(0, -1)
