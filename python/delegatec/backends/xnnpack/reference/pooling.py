# SPDX-License-Identifier: Apache-2.0
"""Pooling. Images are [batch, height, width, channels].

Source: XNNPACK's subgraph/average-pooling-2d.c, max-pooling-2d.c, argmax-pooling-2d.c and static-reduce.c.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import NodeT
from torch.nn import functional as F  # noqa: N812

from delegatec.backends.xnnpack.flags import KEEPS_DIMENSIONS
from delegatec.backends.xnnpack.reference.convolution import padded_image, pads_of
from delegatec.backends.xnnpack.reference.run import (
    Run,
    Semantics,
    check_rank,
    clamp,
    limits_of,
    quantized_limits,
)
from delegatec.backends.xnnpack.reference.tensors import QUANTIZED, reject

_LEAST_RANK: Final = 3


def _windows(
    run: Run,
    operation: Any,
    image: torch.Tensor,
    dilation: tuple[int, int],
    stride: tuple[int, int],
    pad_mode: str = "constant",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the elements of windows, [batch, height, width, channels, kernel], and which are inside."""
    kernel = (int(operation.poolingHeight), int(operation.poolingWidth))
    extent = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    pads = pads_of(operation, image, (extent[0], extent[1]), stride)
    padded = padded_image(run, image.permute(0, 3, 1, 2), pads, extent, pad_mode)
    inside = F.pad(torch.ones_like(image[:1, :, :, :1], dtype=torch.bool).permute(0, 3, 1, 2), pads)
    run.check_size([padded.numel(), kernel[0], kernel[1]], "the windows of a pooling")
    rows, columns = (
        torch.arange(0, size - least + 1, step)
        for size, least, step in zip(padded.shape[2:], extent, stride, strict=True)
    )
    y = rows[:, None] + torch.arange(kernel[0]) * dilation[0]
    x = columns[:, None] + torch.arange(kernel[1]) * dilation[1]
    windows = (y[:, None, :, None], x[None, :, None, :])
    found = [
        each[:, :, windows[0], windows[1]].flatten(-2).permute(0, 2, 3, 1, 4) for each in (padded, inside)
    ]
    return found[0], found[1]


def _max(run: Run, operation: Any, node: NodeT) -> None:
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    check_rank(source, 4, "the input of a pooling")
    dilation = (int(operation.dilationHeight), int(operation.dilationWidth))
    stride = (int(operation.strideHeight), int(operation.strideWidth))
    found, inside = _windows(run, operation, run.elements(source.id).float(), dilation, stride)
    most = found.masked_fill(~inside, -math.inf).amax(-1)
    bounds = quantized_limits(node, result) if result.data_type in QUANTIZED else limits_of(node)
    run.write(result.id, most.clamp(*bounds))


def _average(run: Run, operation: Any, node: NodeT) -> None:
    source = run.operand(int(operation.inputId))
    check_rank(source, 4, "the input of a pooling")
    stride = (int(operation.strideHeight), int(operation.strideWidth))
    found, inside = _windows(run, operation, source.real(), (1, 1), stride)
    run.write(int(operation.outputId), clamp(found.sum(-1) / inside.sum(-1), node))


def _arg_max(run: Run, operation: Any, node: NodeT) -> None:
    source = run.operand(int(operation.inputId))
    check_rank(source, 4, "the input of a pooling")
    kernel = (int(operation.poolingHeight), int(operation.poolingWidth))
    found, _ = _windows(run, operation, source.real(), (1, 1), kernel, pad_mode="replicate")
    # the runtime reads windows column by column, and the border instead of the padding
    columns = found.reshape(*found.shape[:-1], *kernel).mT.flatten(-2)
    most = columns.max(-1)
    run.write(int(operation.outputValueId), most.values)
    run.write(int(operation.outputIndexId), most.indices)


def _global_average(run: Run, operation: Any, node: NodeT) -> None:
    source, result = run.operand(int(operation.inputId)), run.result(int(operation.outputId))
    value = run.elements(source.id)
    if value.dim() < _LEAST_RANK or value.dim() != source.rank:
        reject(f"a global mean of value {source.id}, which has {value.dim()} dimensions")
    dims, keeps = (-3, -2), bool(int(operation.flags) & KEEPS_DIMENSIONS)
    count = value.shape[-3] * value.shape[-2]
    if result.data_type in QUANTIZED:
        scale = torch.tensor(source.one_scale) / result.one_scale * (1 / torch.tensor(float(count)))
        # float32, as in the runtime
        zero = result.one_zero_point - count * source.one_zero_point * scale
        quantized_values = (value.double().sum(dims, keepdim=keeps).float() * scale + zero).round()
        run.write(
            result.id,
            quantized_values.clamp(result.least, result.most).clamp(*quantized_limits(node, result)),
        )
    else:
        run.write(result.id, clamp(source.real().mean(dims, keepdim=keeps), node))


SEMANTICS: Final[dict[str, Semantics]] = {
    "ArgMaxPooling": _arg_max,
    "AveragePooling": _average,
    "GlobalAveragePooling": _global_average,
    "MaxPooling": _max,
}
