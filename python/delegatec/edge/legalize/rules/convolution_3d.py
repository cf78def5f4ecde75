# SPDX-License-Identifier: Apache-2.0
"""3-d convolutions by the 2-d kernel: the depth becomes channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import each, shape_of
from delegatec.edge.builder import Builder
from delegatec.edge.legalize.rule import Function, RuleTable
from delegatec.edge.legalize.rules.dynamic import padded

aten = torch.ops.aten


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    stride, padding, dilation, output_padding = (
        each(values, 3) for values in (stride, padding, dilation, output_padding)
    )
    taps, reach = weight.shape[2], dilation[0] * (weight.shape[2] - 1)
    step = stride[0]
    before = after = padding[0]
    if transposed:
        # equals a convolution of the dilated input with the reversed kernel
        x = _spread(x, stride[0])
        before, after, step = reach - padding[0], reach - padding[0] + output_padding[0], 1
        weight = weight.flip(2)
    # a negative amount crops
    x = padded(x, 2, max(before, 0), max(after, 0))
    x = x.narrow(2, max(-before, 0), x.shape[2] - max(-before, 0) - max(-after, 0))
    batch, channels, depth, height, width = x.shape
    # torch cannot prove that strided slices of a dynamic size have one size: all outputs, then some of them
    skipped = 1 if isinstance(depth, int) else step
    step = step // skipped
    outputs = (depth - reach - 1) // step + 1
    # [N, C, taps, outputs, H, W]
    starts = [tap * dilation[0] for tap in range(taps)]
    windows = torch.stack(
        [x[:, :, start : start + (outputs - 1) * step + 1 : step] for start in starts],
        2,
    )
    images = windows.permute(0, 3, 1, 2, 4, 5).reshape(batch * outputs, channels * taps, height, width)
    if transposed:
        kernel = weight.permute(0, 2, 1, 3, 4)
        kernel = kernel.reshape(channels * taps, weight.shape[1], *weight.shape[3:])
    else:
        kernel = weight.reshape(weight.shape[0], weight.shape[1] * taps, *weight.shape[3:])
    result = aten.convolution.default(
        *(images, kernel, bias, stride[1:], padding[1:], dilation[1:], transposed, output_padding[1:], groups)
    )
    planes = result.reshape(batch, outputs, *result.shape[1:])
    if skipped > 1:
        planes = planes.index_select(1, torch.arange(0, outputs, skipped))
    found: Tensor = planes.permute(0, 2, 1, 3, 4)
    return found


def _spread(x: Tensor, step: int) -> Tensor:
    """Inserts zeros between the elements of dimension 2."""
    if step == 1:
        return x
    size = x.shape[2]
    apart = padded(x.unsqueeze(3), 3, 0, step - 1)
    return apart.reshape(*x.shape[:2], size * step, *x.shape[3:]).narrow(2, 0, (size - 1) * step + 1)


def _of_three_dimensions(_: Builder, node: Node) -> Function | None:
    return _convolution if len(shape_of(node)) == 5 else None


RULES: RuleTable = {aten.convolution.default: _of_three_dimensions}
