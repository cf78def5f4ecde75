# SPDX-License-Identifier: Apache-2.0
"""Layers of block-scaled floats: the extensions mxfp and mxfp_conv of the draft of TOSA 1.1."""

from __future__ import annotations

import math
from typing import Final

import torch
from delegatec_schemas.tosa_graph import DType
from torch.fx import Node

from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import FLOATS, FLOATS_8, FORMATS
from delegatec.backends.arm.operators.moves import sliced
from delegatec.backends.arm.operators.row import Constraint, operator_row
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.block_scaled import BLOCK, CONV2D, LINEAR
from delegatec.edge.legalize.constraints import argument
from delegatec.edge.program import EdgeProgram


def _weight(b: GraphBuilder, node: Node, channels: int) -> tuple[Value, Value]:
    """Returns the quantized values and scales of the weight."""
    bound = bind(node)
    outer = shape_of(bound["elements"])[:-1]
    return (
        b.constant_bytes(bound["elements"], FORMATS[bound["format"]], (*outer, channels)),
        b.constant_bytes(bound["scales"], DType.FP8UE8M0, (*outer, channels // BLOCK)),
    )


def _linear(b: GraphBuilder, node: Node) -> None:
    bound = bind(node)
    x = b.of(bound["x"])
    *outer, channels = x.shape
    rows = b.in_blocks(b.reshaped(x, (1, math.prod(outer), channels)), FORMATS[bound["format"]], BLOCK)
    weight = _weight(b, node, channels)
    shape = (*rows[0].shape[:2], weight[0].shape[1])
    product = b.emit("MATMUL_T_BLOCK_SCALED", *rows, *weight, dtype=DType.FP32, shape=shape, block_size=BLOCK)
    product = b.reshaped(product, shape_of(node))
    if bound["bias"] is not None:
        bias = b.ranked(b.cast(b.of(bound["bias"]), DType.FP32), len(product.shape))
        product = b.emit("ADD", product, bias, shape=product.shape)
    b.alias(node, product)


def _conv2d(b: GraphBuilder, node: Node) -> None:
    bound, result = bind(node), shape_of(node)
    x = b.of(bound["x"])
    kernel = shape_of(bound["elements"])[1:3]
    pad, sizes = [], list(x.shape)
    for dim, size in enumerate(x.shape[1:3]):
        stride, before, dilation = (bound[name][dim] for name in ("stride", "padding", "dilation"))
        used = (result[1 + dim] - 1) * stride + (kernel[dim] - 1) * dilation + 1 - before
        # Windows end at the end of the images.
        sizes[1 + dim] = min(size, used)
        pad += [before, max(used - size, 0)]
    x = sliced(b, x, [0] * 4, sizes)
    images = b.in_blocks(x, FORMATS[bound["format"]], BLOCK)
    weight = _weight(b, node, x.shape[3])
    if bound["bias"] is None:
        bias = b.tensor(torch.zeros(result[3]))
    else:
        bias = b.cast(b.of(bound["bias"]), DType.FP32)
    shapes = (b.shape(each) for each in (pad, bound["stride"], bound["dilation"]))
    operands = (*images, *weight, bias, *shapes)
    found = b.emit("CONV2D_BLOCK_SCALED", *operands, dtype=DType.FP32, shape=result, block_size=BLOCK)
    b.alias(node, found)


def computed_weight(program: EdgeProgram, node: Node) -> str | None:
    """Returns why a call cannot be lowered, if it is a layer whose weight is not constant."""
    if node.target not in (LINEAR, CONV2D):
        return None
    bound, constants = bind(node), program.fixed_constants()
    found = [bound[name].name for name in ("elements", "scales") if bound[name].name not in constants]
    return f"{' and '.join(found)}: the elements and scales of a weight are not constant" if found else None


def _channels(node: Node, _: object) -> str | None:
    channels = shape_of(bind(node)["x"])[-1]
    return f"{channels} channels" if channels % BLOCK else None


_FORMAT: Final = argument("format", lambda format: format in FORMATS, "One of the MX formats.")
_BLOCKS: Final[Constraint] = Constraint("shape", f"Channels are a multiple of {BLOCK}.", _channels)
_DTYPES: Final = FLOATS | FLOATS_8 | {torch.uint8}

ROWS: Final = tuple(
    operator_row(
        target,
        lower,
        _DTYPES,
        _FORMAT,
        _BLOCKS,
        preserved=True,
        note="with the extension mxfp of the draft of TOSA 1.1"
        + ("; mxfp_conv, too" if target is CONV2D else ""),
    )
    for target, lower in ((LINEAR, _linear), (CONV2D, _conv2d))
)
