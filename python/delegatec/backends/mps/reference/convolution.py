# SPDX-License-Identifier: Apache-2.0
"""Convolutions (the runtime's ConvolutionOps), except 3-d and transposed ones.

The products of a float16 element are summed in float32 and rounded once, before the bias is added.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT
from torch.nn import functional

from delegatec.backends.mps.reference.run import Run, Semantics, floats, one_dtype, reject, wide

Tensor = torch.Tensor


def _padding(op: Any, what: str) -> tuple[int, int, int, int]:
    padding = (op.paddingLeft, op.paddingRight, op.paddingTop, op.paddingBottom)
    if min(padding) < 0:
        reject(f"{what} with padding {list(padding)}")
    return padding


def check_window(
    run: Run, x: Tensor, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], op: Any
) -> tuple[int, int, int, int]:
    """Checks the parameters of a convolution or pooling; returns its padding: left, right, top, bottom."""
    padding = _padding(op, "a window")
    if min(*kernel, *stride, *dilation) < 1:
        reject(f"a window of {list(kernel)} with stride {list(stride)} and dilation {list(dilation)}")
    height = x.shape[2] + padding[2] + padding[3]
    width = x.shape[3] + padding[0] + padding[1]
    run.check_size([x.shape[0], x.shape[1], height, width], "a padded operand")
    reach = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    if reach[0] > height or reach[1] > width:
        reject(f"a window of {reach} over {[height, width]} elements")
    return padding


def _convolve(run: Run, op: Any, x: Tensor, weight: Tensor, groups: int) -> Tensor:
    dtype = floats("a convolution", x, weight)
    stride, dilation = (op.strideY, op.strideX), (op.dilationY, op.dilationX)
    padding = check_window(run, x, (weight.shape[2], weight.shape[3]), stride, dilation, op)
    padded = functional.pad(wide(x), padding)
    sizes = zip(padded.shape[2:], weight.shape[2:], stride, dilation, strict=True)
    counts = [(size - (kernel - 1) * gap - 1) // step + 1 for size, kernel, step, gap in sizes]
    run.check_size([x.shape[0], weight.shape[0], *counts], "the result of a convolution")
    result = functional.conv2d(padded, wide(weight), None, stride, 0, dilation, groups).to(dtype)
    if op.input3Id == -1:
        return result
    bias = run[op.input3Id]
    one_dtype(result, bias)
    if bias.dim() != 1:
        reject(f"a bias of shape {list(bias.shape)}")
    bias = bias.reshape(1, -1, 1, 1)
    if run.broadcast("a sum with a bias", result, bias) != result.shape:
        reject(f"a bias of {bias.numel()} elements for {result.shape[1]} channels")
    return result + bias


def _convolution(run: Run, op: Any, _: NodeT) -> None:
    """Computes a convolution; 1-d if the weight has three dimensions."""
    x, weight = run[op.input1Id], run[op.input2Id]
    flat = weight.dim() == 3
    if flat and x.dim() == 3:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    shapes = f"a convolution of shape {list(x.shape)} with a weight of shape {list(weight.shape)}"
    if x.dim() != 4 or weight.dim() != 4:
        reject(shapes)
    groups = op.groups
    if groups < 1 or weight.shape[0] % groups or x.shape[1] != weight.shape[1] * groups:
        reject(f"{shapes} in {groups} groups")
    result = _convolve(run, op, x, weight, groups)
    run[op.outputId] = result.squeeze(2) if flat else result


def _depthwise(run: Run, op: Any, _: NodeT) -> None:
    """Computes MPSGraph's 3-d convolution, with the channels as depth. Ignores `groups`."""
    x, weight = run[op.input1Id], run[op.input2Id]
    if weight.dim() != 4 or x.dim() != 4:
        reject(f"a depthwise convolution of rank {x.dim()} with a weight of rank {weight.dim()}")
    channels = x.shape[1]
    if weight.shape[0] != channels or weight.shape[1] != 1:
        reject(f"a depthwise convolution of {channels} channels with a weight of shape {list(weight.shape)}")
    run[op.outputId] = _convolve(run, op, x, weight, channels)


SEMANTICS: Final[dict[str, Semantics]] = {"Conv2D": _convolution, "DepthwiseConv2D": _depthwise}
