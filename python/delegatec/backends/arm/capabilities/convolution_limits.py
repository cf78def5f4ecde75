# SPDX-License-Identifier: Apache-2.0
"""Limits of convolutions and pools."""

from __future__ import annotations

import math
from typing import Final

from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.building.operation import Operation
from delegatec.backends.arm.capabilities.limits import Limit, at_most, between, constant, dtypes

_MAX_SIZE: Final = 65536
MAX_STRIDE: Final = 3
_MAX_POSITIONS: Final = 4096
"""Of a convolution with greater strides: Vela compiles each position of the result separately."""
_MAX_ADDED: Final = 65536
"""Weights per result, so that the sum of their absolute values is at most 127 * 65536."""


def channels(operation: Operation) -> str | None:
    """Limits the channels of the input."""
    return at_most("channels", operation.inputs[0].shape[-1], _MAX_SIZE)


def _kernel(operation: Operation) -> tuple[int, int]:
    shape = operation.inputs[1].shape
    height, width = shape[:2] if operation.name == "DEPTHWISE_CONV2D" else shape[-3:-1]
    return height, width


def _kernel_size(operation: Operation) -> str | None:
    height, width = _kernel(operation)
    return at_most("kernel height", height, 64) or at_most("kernel area", height * width, 4096)


def _stride(operation: Operation) -> str | None:
    return between("strides", operation.attributes["stride"][-2:], MAX_STRIDE)


def _stride_or_positions(operation: Operation) -> str | None:
    found = _stride(operation)
    if found is None:
        return None
    if any(operation.attributes["pad"]) or any(each > 1 for each in operation.attributes["dilation"]):
        return f"{found}, with padding or dilation"
    return at_most(f"{found}, at positions", math.prod(operation.outputs[0].shape[:-1]), _MAX_POSITIONS)


def _depth(operation: Operation) -> str | None:
    return at_most("kernel depth", operation.inputs[1].shape[1], 1)


def _added(operation: Operation) -> str | None:
    shape = operation.inputs[1].shape
    each = shape[:2] if operation.name == "DEPTHWISE_CONV2D" else shape[1:]
    return at_most("weights per result", math.prod(each), _MAX_ADDED)


def _pool_kernel(operation: Operation) -> str | None:
    height, width = operation.attributes["kernel"]
    return at_most("kernel height", height, 256) or at_most("kernel area", height * width, _MAX_SIZE)


def _padded_kernel(operation: Operation) -> str | None:
    if not any(operation.attributes["pad"]):
        return None
    return between("kernel with padding", operation.attributes["kernel"], 8)


def _image(operation: Operation) -> str | None:
    return between("sizes", operation.inputs[0].shape[1:], _MAX_SIZE)


def _one_image(operation: Operation) -> str | None:
    return at_most("batch size", operation.inputs[0].shape[0], 1)


def _upscaling(operation: Operation) -> str | None:
    stride = tuple(operation.attributes["stride"])
    sizes = operation.inputs[0].shape[1:3]
    flat = tuple(size == 1 and kernel == 1 for size, kernel in zip(sizes, _kernel(operation), strict=True))
    if stride in ((1, 1), (2, 2)) or (stride == (1, 2) and flat[0]) or (stride == (2, 1) and flat[1]):
        return None
    return f"strides {stride[0]} x {stride[1]}, not 1 x 1 or 2 x 2, nor 1 and 2 along a single line"


_CONSTANT: Final = (constant(1, "the weight"), constant(2, "the bias"))
_FEATURES: Final = dtypes(DType.INT8, DType.INT16)

_WEIGHTED: Final = (_FEATURES, *_CONSTANT, _kernel_size, _added)

CONVOLUTION: Final[tuple[Limit, ...]] = (*_WEIGHTED, _stride_or_positions)
DEPTHWISE: Final[tuple[Limit, ...]] = (*_WEIGHTED, _stride)
CONVOLUTION_3D: Final[tuple[Limit, ...]] = (*CONVOLUTION, _depth)
TRANSPOSED: Final[tuple[Limit, ...]] = (
    dtypes(DType.INT8),
    *_CONSTANT,
    _image,
    _kernel_size,
    _upscaling,
    _added,
)
MAX_POOL: Final[tuple[Limit, ...]] = (_FEATURES, _image, _pool_kernel, _stride)
AVERAGE_POOL: Final[tuple[Limit, ...]] = (*MAX_POOL, _one_image, _padded_kernel)
