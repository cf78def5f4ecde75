# SPDX-License-Identifier: Apache-2.0
"""Convolutions in XNNPACK's layout, between permutations that move the channels."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch.fx import Node

from delegatec.backends.xnnpack.operators.rewrites.volumes import convolution_of_volumes
from delegatec.edge.arguments import bind, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.channels_last.operators import NHWC
from delegatec.edge.channels_last.rewrites.convolutions import Convolution
from delegatec.edge.channels_last.rewrites.images import emit, in_images
from delegatec.edge.legalize.constraints import STATIC_SETTINGS
from delegatec.edge.legalize.rule import Rewrite
from delegatec.edge.legalize.value import value_of

aten = torch.ops.aten


def _convolution(builder: Builder, node: Node) -> Any:
    bound = bind(node)
    if len(shape_of(bound["input"])) == 5:
        return convolution_of_volumes(node, value_of(builder, bound["input"]))
    call, x = Convolution.of(node), value_of(builder, bound["input"])
    is_line = x.rank == 3
    if is_line:
        call = call.along_rows()
    elif x.rank != 4:
        return None
    arguments = [list(call.stride), [amount for amount in call.padding for _ in range(2)]]
    options: dict[str, Any] = {"dilation": list(call.dilation), "groups": call.groups}
    operator, order = NHWC.conv2d.default, "OIHW"
    if call.transposed:
        pairs = zip(call.padding, call.output_padding, strict=True)
        arguments[1] = [each for removed, added in pairs for each in (-removed, added - removed)]
        operator, order = NHWC.conv_transpose2d.default, "IOHW"
    if is_line:
        order = order.replace("H", "")
    batch, channels, *sizes = node.meta["val"].shape
    shape = (batch, 1, *sizes, channels) if is_line else (batch, *sizes, channels)
    operands = (bound["weight"], bound["bias"], *arguments)
    return in_images(
        x, lambda image: emit(operator, image, *operands, shape=shape, weight_order=order, **options)
    ).node


REWRITES: Final = (
    Rewrite(
        aten.convolution.default,
        _convolution,
        (STATIC_SETTINGS,),
        note="channels last; one dimension as images of one row, three as images of planes",
        preserved=True,
    ),
)
