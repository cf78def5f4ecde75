# SPDX-License-Identifier: Apache-2.0
"""One run of a blob: its tensors by id, and shared parts of operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.xnnpack_graph import DataType, NodeT

from delegatec.backends.xnnpack.reference.tensors import MOST_DIMS, QUANTIZED, Tensor, reject

MAX_ELEMENTS: Final = 2**28
"""The maximum size of a value; a damaged blob can ask for more memory than there is."""


class Run:
    """Tensors by id.

    Args:
        tensors: id -> tensor.
        max_elements: of a value.
    """

    def __init__(self, tensors: Mapping[int, Tensor], max_elements: int = MAX_ELEMENTS) -> None:
        self._tensors = tensors
        self._max_elements = max_elements

    def operand(self, id: int) -> Tensor:
        """Returns a tensor that has elements."""
        tensor = self._tensors[id]
        if tensor.value is None:
            reject(f"value {id} is used before it is computed")
        return tensor

    def elements(self, id: int) -> torch.Tensor:
        """Returns the elements of a tensor: quantized values if it is quantized."""
        value = self.operand(id).value
        assert value is not None
        return value

    def result(self, id: int) -> Tensor:
        """Returns the tensor that an operation writes."""
        return self._tensors[id]

    def check_size(self, shape: Sequence[int], what: str) -> None:
        """Rejects a shape with too many dimensions or elements.

        Args:
            shape: its sizes.
            what: has this shape, for the message.
        """
        if len(shape) > MOST_DIMS:
            reject(f"{what} has {len(shape)} dimensions; the most are {MOST_DIMS}")
        if math.prod(shape) > self._max_elements:
            reject(f"{what} has the shape {list(shape)}, of more than {self._max_elements} elements")

    def write(self, id: int, value: torch.Tensor) -> None:
        """Writes a result.

        Args:
            id: of the result.
            value: its elements: floats, which are rounded to the result's type, or quantized values.
        """
        tensor = self.result(id)
        self.check_size(value.shape, f"value {id}")
        if tensor.data_type == DataType.BFLOAT16:
            value = truncated(value)
        tensor.value = value.to(tensor.dtype).contiguous()


def truncated(value: torch.Tensor) -> torch.Tensor:
    """Truncates float32 values to the precision of bfloat16; the runtime does not round to it."""
    return (value.float().view(torch.int32) & -65536).view(torch.float32)


Semantics = Callable[[Run, Any, NodeT], None]
"""Runs one operation, given the tensors, its table, and the node."""


def limits_of(node: NodeT) -> tuple[float, float]:
    """Returns the bounds of a node's result; infinite without limits."""
    if node.limits is None:
        return -math.inf, math.inf
    return float(node.limits.least), float(node.limits.most)


def clamp(value: torch.Tensor, node: NodeT) -> torch.Tensor:
    """Clamps float32 values to a node's limits. NaN stays NaN."""
    least, most = limits_of(node)
    return value.clamp(least, most) if (least, most) != (-math.inf, math.inf) else value


def write_real(run: Run, id: int, value: torch.Tensor) -> None:
    """Writes float32 values: rounded to the result's float type, or quantized with its scale."""
    tensor = run.result(id)
    run.write(id, quantize(value, tensor) if tensor.data_type in QUANTIZED else value)


def quantize(value: torch.Tensor, tensor: Tensor) -> torch.Tensor:
    """Quantizes float32 values: multiplies by the inverse scale, rounds to even, saturates."""
    scaled = value * (1 / torch.tensor(tensor.one_scale)) + tensor.one_zero_point
    return scaled.nan_to_num(nan=0.0).round().clamp(tensor.least, tensor.most)


def quantized_value(value: float, tensor: Tensor) -> int:
    """Quantizes a scalar of the blob, such as a limit: divides by the scale, rounds to even."""
    scaled = torch.tensor(value, dtype=torch.float32) / tensor.one_scale + tensor.one_zero_point
    return int(scaled.clamp(tensor.least, tensor.most).round())


def quantized_limits(node: NodeT, tensor: Tensor) -> tuple[int, int]:
    """Returns the limits of a node as quantized values of its result."""
    least, most = limits_of(node)
    return quantized_value(least, tensor), quantized_value(most, tensor)


def requantize(sums: torch.Tensor, scale: torch.Tensor, tensor: Tensor, node: NodeT) -> torch.Tensor:
    """Requantizes sums of products of quantized values.

    Args:
        sums: integers.
        scale: float32, the scale of the sums divided by that of the result; broadcast.
        tensor: the result.
        node: its node, whose limits apply.
    """
    least, most = quantized_limits(node, tensor)
    zero = tensor.one_zero_point
    # float32 as in the runtime: integers are rounded to 24 bits before they are scaled
    scaled = (sums.float() * scale).clamp(tensor.least - zero, most - zero)
    return (scaled.round() + zero).clamp(least, most)


def check_rank(tensor: Tensor, rank: int, what: str) -> None:
    """Rejects an operand of another rank."""
    assert tensor.value is not None
    if tensor.value.dim() != rank:
        reject(f"{what} has {tensor.value.dim()} dimensions instead of {rank}: value {tensor.id}")
