# SPDX-License-Identifier: Apache-2.0
"""Convolutions in three dimensions as those of images: XNNPACK has no others.

A kernel of one plane is a convolution of all planes, and a kernel of one pixel one of images of depth x
pixels. Otherwise, the planes that a window reads are channels of one image, or are convolved and added if
there are groups.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from torch import Tensor
from torch.fx import Node

from delegatec.backends.xnnpack.dialect import XNNPACK
from delegatec.edge.arguments import bind
from delegatec.edge.channels_last.rewrites.convolutions import Convolution
from delegatec.edge.channels_last.rewrites.images import channels_first, channels_last, emit
from delegatec.edge.legalize.rule import Refusal
from delegatec.edge.legalize.value import Value, cat
from delegatec.edge.symbols import is_dynamic

_TRANSPOSED = Refusal("argument", "transposed convolutions in three dimensions have no form in two")
_VARY = Refusal("shape", "planes, rows and columns vary; only the batch may")
_COMPUTED = Refusal("argument", "a weight that is computed")


def convolution_of_volumes(node: Node, x: Value) -> Any:
    """Returns a convolution of [N, C, D, H, W]; a refusal if it has no form in two dimensions."""
    builder, bound, call = x.builder, bind(node), Convolution.of(node)
    weight = builder.facts.constant(bound["weight"])
    if call.transposed or weight is None or is_dynamic(x.shape[1:]):
        return _TRANSPOSED if call.transposed else _COMPUTED if weight is None else _VARY
    batch, outputs, *sizes = node.meta["val"].shape

    def convolved(image: Value, kernel: Tensor, bias: Node | None, rows: slice, shape: list[Any]) -> Value:
        """Convolves [N, H, W, C] with a kernel [O, C, H, W]; `rows` are two of the three dimensions."""
        stride, padding, dilation = (
            list(values[rows]) for values in (call.stride, call.padding, call.dilation)
        )
        pads = [amount for amount in padding for _ in range(2)]
        moved = builder.derived(bound["weight"], kernel)
        return emit(
            *(XNNPACK.conv2d.default, image, moved, bias, stride, pads, dilation, call.groups), shape=shape
        )

    weight = weight.detach()
    taps, *kernel = weight.shape[2:]
    image = channels_last(x)
    depth, height, width, channels = image.shape[1:]
    is_of_pixels = kernel == [1, 1] and [*call.stride[1:], *call.padding[1:]] == [1, 1, 0, 0]
    if is_of_pixels and taps > 1:
        lines = image.view(batch, depth, height * width, channels)
        result = convolved(
            *(
                lines,
                weight.squeeze(4),
                bound["bias"],
                slice(0, 3, 2),
                [batch, sizes[0], height * width, outputs],
            )
        )
        return channels_first(result.view(batch, *sizes, outputs)).node
    if call.padding[0]:
        image = image.pad([0, 0, 0, 0, 0, 0, call.padding[0], call.padding[0]])
    step, last = call.stride[0], (sizes[0] - 1) * call.stride[0] + 1
    starts = [tap * call.dilation[0] for tap in range(taps)]
    planes = [image.slice(1, start, start + last, step) for start in starts]
    shape = [batch * sizes[0], *sizes[1:], outputs]
    if taps == 1 or call.groups == 1:
        joined = planes[0] if taps == 1 else cat(planes, 4)
        together = weight.transpose(1, 2).flatten(1, 2)
        images = joined.view(batch * sizes[0], height, width, taps * channels)
        result = convolved(images, together, bound["bias"], slice(1, 3), shape)
    else:
        parts = [
            convolved(
                plane.view(batch * sizes[0], height, width, channels),
                *(weight[:, :, tap], None if tap else bound["bias"], slice(1, 3), shape),
            )
            for tap, plane in enumerate(planes)
        ]
        result = functools.reduce(operator.add, parts)
    return channels_first(result.view(batch, *sizes, outputs)).node
