# SPDX-License-Identifier: Apache-2.0
"""Checks of fully connected layers and convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from delegatec_schemas.xnnpack_graph import DataType, Quantization

from delegatec.backends.xnnpack import ratios
from delegatec.backends.xnnpack.checking.fields import (
    Check,
    flag_problems,
    is_quantized,
    pad_problems,
    positive,
    ratio_problems,
    scale_of,
)
from delegatec.backends.xnnpack.flags import SAME_PADDING, TRANSIENT_INDIRECTION, TRANSPOSED
from delegatec.backends.xnnpack.values import quantization_of, tensor_of

_FLAGS: Final = SAME_PADDING | TRANSIENT_INDIRECTION
_GROUP: Final = 32


def _layer(operands: list[Any], results: list[Any]) -> Iterator[str]:
    """Yields problems of layers with integer filters."""
    if is_quantized(results[0]):
        kind, table = quantization_of(operands[1])
        scales = [table.scale] if kind == Quantization.ScaleOfTensor else table.scales or ()
        for scale in scales:
            yield from ratio_problems(
                scale_of(operands[0])[0] * scale / scale_of(results[0])[0], ratios.LAYER
            )
    if tensor_of(operands[1]).dataType == DataType.INT8 and scale_of(operands[1])[1]:
        yield f"has a filter with the zero point {scale_of(operands[1])[1]}"


def constant_problems(operands: list[Any]) -> Iterator[str]:
    """Yields a problem for each operand except the first that is not a constant."""
    for value in operands[1:]:
        if not tensor_of(value).constantId:
            yield f"has a filter or bias that is not a constant: value {tensor_of(value).id}"


def channel_problems(value: Any, wanted: int) -> Iterator[str]:
    """Yields a problem if a filter's channel dimension is not the expected one."""
    kind, table = quantization_of(value)
    if kind == Quantization.ScalesOfChannels and table.channelDim != wanted:
        yield f"has a filter or bias with the channel dimension {table.channelDim} instead of {wanted}"


def _fully_connected(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from _layer(operands, results)
    filter = tensor_of(operands[1])
    transposed = int(operation.flags) & TRANSPOSED
    yield from channel_problems(operands[1], 1 if transposed else 0)
    if quantization_of(operands[1])[0]:
        yield from constant_problems(operands)
    elif any(bool(tensor_of(bias).constantId) != bool(filter.constantId) for bias in operands[2:]):
        # the runtime packs them at each run, after it has freed the one that is a constant
        yield "has a filter and a bias of which only one is a constant"
    if len(filter.dims) != 2:
        yield f"has a filter of {len(filter.dims)} dimensions"
        return
    if transposed and filter.dataType in (DataType.CHANNEL_INT4, DataType.GROUP_INT4):
        yield "has a transposed filter of four bits"
    source = tensor_of(operands[0]).dataType
    if filter.dataType == DataType.CHANNEL_INT4 and filter.dims[1] % 2 and source != DataType.FLOAT32:
        yield f"has a filter of four bits with {filter.dims[1]} inputs: odd counts are computed wrongly"
    yield from row_problems(operands[0])
    kind, table = quantization_of(operands[1])
    if kind == Quantization.ScalesOfGroups and table.groupSize % _GROUP:
        yield f"has groups of {table.groupSize} inputs, not a multiple of {_GROUP}"


def row_problems(value: Any) -> Iterator[str]:
    """Yields a problem if an operand does not have one scale per row."""
    kind, table = quantization_of(value)
    if kind == Quantization.ScalesOfRows and table.numRowDims != 1:
        yield f"reads rows of {table.numRowDims} dimensions instead of 1"


def _convolution(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from _any_convolution(operation, operands, results)
    yield from channel_problems(operands[1], 0)
    yield from positive(operation, "groupOutputChannels")
    groups = int(operation.groups)
    kernel = [int(operation.kernelHeight), int(operation.kernelWidth)]
    outputs, inputs = groups * int(operation.groupOutputChannels), int(operation.groupInputChannels)
    yield from _filter_shape(operands[1], [outputs, *kernel, inputs])


def _depthwise(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    found = list(_any_convolution(operation, operands, results))
    yield from found
    yield from channel_problems(operands[1], 3)
    inputs, outputs = int(operation.groupInputChannels), int(operation.groupOutputChannels)
    if inputs and outputs < inputs:
        yield f"has {outputs} output channels for {inputs} input channels of a group"
    elif inputs:
        kernel = [int(operation.kernelHeight), int(operation.kernelWidth)]
        yield from _filter_shape(operands[1], [1, *kernel, int(operation.groups) * (outputs // inputs)])


def _filter_shape(filter: Any, wanted: list[int]) -> Iterator[str]:
    found = [int(size) for size in tensor_of(filter).dims]
    if found != wanted:
        yield f"has a filter of the shape {found} instead of {wanted}"


def _any_convolution(operation: Any, operands: list[Any], results: list[Any]) -> Iterator[str]:
    yield from positive(
        operation,
        *("kernelHeight", "kernelWidth", "strideHeight", "strideWidth", "dilationHeight", "dilationWidth"),
        *("groups", "groupInputChannels"),
    )
    yield from flag_problems(operation, _FLAGS)
    yield from pad_problems(operation)
    yield from _layer(operands, results)
    yield from constant_problems(operands)


CHECKS: Final[dict[str, Check]] = {
    "FullyConnected": _fully_connected,
    "Convolution": _convolution,
    "TransposedConvolution": _convolution,
    "DepthwiseConvolution": _depthwise,
}
