# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, normalisation, pooling, means (the runtime's files of those names)."""

from __future__ import annotations

from typing import Any, Final

import torch
from delegatec_schemas.mps_graph import NodeT
from torch.nn import functional

from delegatec.backends.mps.reference.run import Run, Semantics, one_dtype, refuse, wide

Tensor = torch.Tensor


def _matmul(run: Run, op: Any, _: NodeT) -> None:
    first, second = run[op.input1Id], run[op.input2Id]
    dtype = one_dtype(first, second)
    run[op.outputId] = (wide(first) @ wide(second)).to(dtype)


def _addmm(run: Run, op: Any, _: NodeT) -> None:
    bias, first, second = run[op.input1Id], run[op.input2Id], run[op.input3Id]
    dtype = one_dtype(bias, first, second)
    product = (wide(first) @ wide(second)).to(dtype)
    if op.alpha != 1.0:
        product = product * torch.tensor(op.alpha).to(dtype)
    if op.beta != 1.0:
        bias = bias * torch.tensor(op.beta).to(dtype)
    run[op.outputId] = product + bias


def _convolution(run: Run, op: Any, _: NodeT) -> None:
    x, weight = run[op.input1Id], run[op.input2Id]
    dtype = one_dtype(x, weight)
    flat = weight.dim() == 3
    if flat:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
    padded = functional.pad(wide(x), (op.paddingLeft, op.paddingRight, op.paddingTop, op.paddingBottom))
    stride, dilation = (op.strideY, op.strideX), (op.dilationY, op.dilationX)
    result = functional.conv2d(padded, wide(weight), None, stride, 0, dilation, op.groups).to(dtype)
    if op.input3Id != -1:
        bias = run[op.input3Id]
        one_dtype(x, bias)
        result = result + bias.reshape(1, -1, 1, 1)
    run[op.outputId] = result.squeeze(2) if flat else result


def _depthwise(run: Run, op: Any, node: NodeT) -> None:
    channels, weight = run[op.input1Id].shape[1], run[op.input2Id].shape
    if len(weight) == 3:
        refuse("a depthwise convolution in one dimension")
    if not op.groups == channels == weight[0] or weight[1] != 1:
        refuse(f"a depthwise convolution of {channels} channels with a weight of shape {list(weight)}")
    _convolution(run, op, node)


def _normalize(
    x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor, beta: Tensor, epsilon: float
) -> Tensor:
    dtype = one_dtype(x, mean, variance, gamma, beta)
    scale = (wide(variance) + epsilon).rsqrt() * wide(gamma)
    return ((wide(x) - wide(mean)) * scale + wide(beta)).to(dtype)


def _batch_norm(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.inputId]
    shape = (1, x.shape[1], *(1,) * (x.dim() - 2))
    mean, variance, gamma, beta = (
        run[id].reshape(shape) for id in (op.meanId, op.varId, op.weightId, op.biasId)
    )
    run[op.output1Id] = _normalize(x, mean, variance, gamma, beta, op.epsilon)
    run[op.output2Id] = run[op.meanId]


def _layer_norm(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    axes = tuple(range(x.dim() - len(op.normalizedShape), x.dim()))
    mean = wide(x).mean(axes, keepdim=True).to(x.dtype)
    variance = ((wide(x) - wide(mean)) ** 2).mean(axes, keepdim=True).to(x.dtype)
    run[op.output1Id] = _normalize(x, mean, variance, run[op.weightId], run[op.biasId], op.eps)
    run[op.output2Id] = mean
    run[op.output3Id] = variance


def _mean(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    axes = tuple(int(dim) for dim in op.dims[: op.numDims])
    run[op.outputId] = wide(x).mean(axes, keepdim=op.keepDims).to(x.dtype)


def _padded(x: Tensor, op: Any, fill: float) -> Tensor:
    if x.dim() != 4:
        refuse(f"pooling of rank {x.dim()}")
    return functional.pad(
        wide(x), (op.paddingLeft, op.paddingRight, op.paddingTop, op.paddingBottom), value=fill
    )


def _max_pool(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    padded = _padded(x, op, float("-inf"))
    values, places = functional.max_pool2d(
        padded,
        (op.kernelHeight, op.kernelWidth),
        (op.strideHeight, op.strideWidth),
        0,
        (op.dilationHeight, op.dilationWidth),
        op.ceilMode,
        return_indices=True,
    )
    width = padded.shape[3]
    row, column = places // width - op.paddingTop, places % width - op.paddingLeft
    run[op.output1Id] = values.to(x.dtype)
    run[op.output2Id] = (row * x.shape[3] + column).to(torch.int32)


def _avg_pool(run: Run, op: Any, _: NodeT) -> None:
    x = run[op.input1Id]
    if (op.dilationHeight, op.dilationWidth) != (1, 1):
        refuse("average pooling with a dilation")
    kernel, stride = (op.kernelHeight, op.kernelWidth), (op.strideHeight, op.strideWidth)

    def total(padded: Tensor) -> Tensor:
        return functional.avg_pool2d(padded, kernel, stride, 0, op.ceilMode, divisor_override=1)

    counted = torch.ones_like(x)
    fill = 1.0 if op.divisorOverride or op.countIncludePad else 0.0
    result = (total(_padded(x, op, 0.0)) / total(_padded(counted, op, fill))).to(x.dtype)
    if op.divisorOverride:
        if x.dtype != torch.float32:
            refuse("average pooling in float16 with a divisor")
        result = result * (kernel[0] * kernel[1] / op.divisorOverride)
    run[op.output1Id] = result


SEMANTICS: Final[dict[str, Semantics]] = {
    "MatMul": _matmul,
    "Addmm": _addmm,
    "Conv2D": _convolution,
    "DepthwiseConv2D": _depthwise,
    "BatchNorm": _batch_norm,
    "LayerNorm": _layer_norm,
    "Mean": _mean,
    "MaxPool2DWithIndices": _max_pool,
    "AvgPool2D": _avg_pool,
}
