# SPDX-License-Identifier: Apache-2.0
"""Limits of level 8K, which every specification here has. Source: TOSA 1.0."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from delegatec.backends.arm.building.operation import Operation, Value
from delegatec.backends.arm.dtypes import BITS

MOST_DIMENSIONS: Final = 6
MOST_KERNEL: Final = 8192
MOST_STRIDE: Final = 8192
MOST_SCALE: Final = 256
MOST_OPERANDS: Final = 64
MOST_NESTED: Final = 5
"""Calls of control flow inside each other: below the limit, as Arm's validator counts."""
_MOST_BYTES: Final = 1 << 30


def limit_problems(operation: Operation) -> Iterator[str]:
    """Yields the limits that an operator exceeds."""
    for value in (*operation.inputs, *operation.outputs):
        if not value.is_shape:
            yield from _of_value(value)
    if len(operation.inputs) > MOST_OPERANDS:
        yield f"{len(operation.inputs)} operands; the most are {MOST_OPERANDS}"
    attributes = operation.attributes
    dilation = attributes.get("dilation") or [1, 1, 1]
    kernel = attributes.get("kernel") or _kernel(operation)
    for size, factor in zip(kernel, dilation, strict=False):
        if size * factor > MOST_KERNEL:
            yield f"a kernel of {size} with a dilation of {factor}; the largest is {MOST_KERNEL}"
    for name in ("stride", "pad", "out_pad"):
        if any(each > MOST_STRIDE for each in attributes.get(name) or []):
            yield f"{name} {list(attributes[name])}; the largest is {MOST_STRIDE}"


def _kernel(operation: Operation) -> tuple[int, ...]:
    """Returns the sizes of a convolution's kernel."""
    if operation.name in ("CONV2D", "CONV3D", "TRANSPOSE_CONV2D"):
        return operation.inputs[1].shape[1:-1]
    return operation.inputs[1].shape[:2] if operation.name == "DEPTHWISE_CONV2D" else ()


def _of_value(value: Value) -> Iterator[str]:
    if len(value.shape) > MOST_DIMENSIONS:
        yield f"a tensor of {len(value.shape)} dimensions; the most are {MOST_DIMENSIONS}"
    if math.prod(value.shape) * BITS[value.dtype] // 8 > _MOST_BYTES:
        yield f"a tensor of shape {list(value.shape)} has more than {_MOST_BYTES} bytes"
    if 0 in value.shape:
        yield "an empty tensor"
