# SPDX-License-Identifier: Apache-2.0
"""Cases of products, convolutions, normalization and means: node type -> tables, inputs, results.

Expected results are computed in loops over elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

import torch
from delegatec_schemas.mps_graph import (
    AddmmT,
    BatchNormT,
    BinaryT,
    ConvolutionT,
    LayerNormT,
    MeanT,
)

from delegatec.backends.mps.testing.reference.synthetic import Case

Tensor = torch.Tensor


def floats(*shape: int, seed: int = 0) -> Tensor:
    """Multiples of 1/16 in [-1, 1], so that sums of products of halves are exact."""
    return torch.randint(-16, 17, shape, generator=torch.Generator().manual_seed(seed)) / 16.0


def _convolved(table: ConvolutionT, groups: int) -> Callable[..., Tensor]:
    def compute(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        flat = weight.dim() == 3
        if flat:
            x, weight = x[:, :, None], weight[:, :, None]
        outputs, inputs, height, width = weight.shape
        padded = torch.zeros(
            *x.shape[:2],
            x.shape[2] + table.paddingTop + table.paddingBottom,
            x.shape[3] + table.paddingLeft + table.paddingRight,
            dtype=x.dtype,
        )
        rows, columns = (
            slice(t, t + n) for t, n in zip((table.paddingTop, table.paddingLeft), x.shape[2:], strict=True)
        )
        padded[:, :, rows, columns] = x
        high = (padded.shape[2] - (height - 1) * table.dilationY - 1) // table.strideY + 1
        wide = (padded.shape[3] - (width - 1) * table.dilationX - 1) // table.strideX + 1
        result = torch.zeros(x.shape[0], outputs, high, wide, dtype=x.dtype)
        for o, i, r, c in itertools.product(range(outputs), range(inputs), range(height), range(width)):
            channel = o // (outputs // groups) * inputs + i
            top, left = r * table.dilationY, c * table.dilationX
            part = padded[:, channel, top :: table.strideY, left :: table.strideX][:, :high, :wide]
            result[:, o] += part * weight[o, i, r, c]
        if bias is not None:
            result = result + bias[None, :, None, None]
        return result[:, :, 0] if flat else result

    return compute


def _convolution(
    table: ConvolutionT, x: Tensor, weight: Tensor, *bias: Tensor, groups: int | None = None
) -> Case:
    compute = _convolved(table, table.groups if groups is None else groups)
    return Case(table, (x,), compute, constants=dict(enumerate((weight, *bias), 5)))


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    axes = list(range(x.dim() - weight.dim(), x.dim()))
    mean = x.sum(axes, keepdim=True) / weight.numel()
    variance = (x * x).sum(axes, keepdim=True) / weight.numel() - mean * mean
    return (x - mean) / (variance + 0.5).sqrt() * weight + bias, mean, variance


def _batch_norm(
    x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    parts = [
        (x[:, c] - mean[c]) / (variance[c] + 0.25).sqrt() * weight[c] + bias[c] for c in range(x.shape[1])
    ]
    return torch.stack(parts, 1), mean


IMAGE: Final = floats(2, 3, 5, 7).cumsum(-1) / 2
_PARAMETERS: Final = {id: floats(3, seed=id).abs() + 0.5 for id in (5, 6, 7, 8)}
_PLAIN: Final = {"strideX": 1, "strideY": 1, "dilationX": 1, "dilationY": 1, "groups": 1}

CASES: Final[dict[str, list[Case]]] = {
    "MatMul": [
        Case(BinaryT(0, 1, 10), (floats(3, 4), floats(4, 2)), lambda x, y: torch.einsum("ij,jk->ik", x, y)),
        Case(
            BinaryT(0, 1, 10),
            (floats(2, 1, 3, 4), floats(5, 4, 2)),
            lambda x, y: torch.einsum("baij,cjk->bcik", x, y),
        ),
    ],
    "Addmm": [
        Case(
            AddmmT(0, 1, 2, 10, beta, alpha),
            (bias, floats(3, 4), floats(4, 2)),
            lambda b, x, y, beta=beta, alpha=alpha: beta * b + alpha * torch.einsum("ij,jk->ik", x, y),
        )
        for beta, alpha, bias in (
            (1.0, 1.0, floats(2)),
            (2.0, -0.5, floats(3, 2)),
            (0.0, 1.0, floats(1)),
        )
    ],
    "Conv2D": [
        _convolution(ConvolutionT(0, 5, -1, 10, **_PLAIN), IMAGE, floats(4, 3, 2, 3)),
        _convolution(
            ConvolutionT(
                0,
                5,
                6,
                10,
                strideX=2,
                strideY=1,
                dilationX=1,
                dilationY=2,
                groups=3,
                paddingLeft=1,
                paddingRight=2,
                paddingTop=3,
                paddingBottom=0,
            ),
            IMAGE,
            floats(6, 1, 3, 2),
            floats(6),
        ),
        _convolution(
            ConvolutionT(
                0, 5, 6, 10, strideX=2, strideY=1, dilationX=1, dilationY=1, groups=1, paddingLeft=1
            ),
            floats(2, 3, 9),
            floats(4, 3, 4),
            floats(4),
        ),
    ],
    "DepthwiseConv2D": [
        _convolution(
            # The runtime does not read `groups` here.
            ConvolutionT(
                0,
                5,
                6,
                10,
                strideX=1,
                strideY=2,
                dilationX=2,
                dilationY=1,
                groups=1,
                paddingLeft=1,
                paddingTop=2,
                paddingBottom=1,
            ),
            IMAGE,
            floats(3, 1, 2, 3),
            floats(3),
            groups=3,
        ),
    ],
    "BatchNorm": [
        Case(
            BatchNormT(0, 5, 6, 7, 8, 0.1, 0.25, output1Id=10, output2Id=11, output3Id=12),
            (x,),
            _batch_norm,
            constants=_PARAMETERS,
        )
        for x in (IMAGE, floats(4, 3), floats(2, 3, 5))
    ],
    "LayerNorm": [
        Case(
            # The sizes of the normalized shape are not read.
            LayerNormT(0, [9] * len(shape), 5, 6, 0.5, output1Id=10, output2Id=11, output3Id=12),
            (floats(2, 3, 4),),
            _layer_norm,
            constants={5: floats(*shape), 6: floats(*shape, seed=1)},
        )
        for shape in ((4,), (3, 4))
    ],
    "Mean": [
        Case(MeanT(0, 10, 1, [-1], False), (IMAGE,), lambda x: x.sum(3) / 7),
        Case(MeanT(0, 10, 2, [3, 1], True), (IMAGE,), lambda x: x.sum((1, 3), keepdim=True) / 21),
        Case(MeanT(0, 10, 0, [], False), (IMAGE,), lambda x: x),
        Case(
            MeanT(0, 10, 1, [1], False),
            (torch.tensor([[-1, -2, -2], [5, 2, 1]], dtype=torch.int32),),
            lambda x: torch.tensor([-1, 2]),
        ),
    ],
}
