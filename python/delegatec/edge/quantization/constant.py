# SPDX-License-Identifier: Apache-2.0
"""Quantized constants: integers with a scale, and maybe a zero point, for each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.quantization.operators import DEQUANTIZING, operands_of

aten = torch.ops.aten

INTEGERS: Final = (torch.int8, torch.uint8, torch.int16, torch.int32)
"""dtypes of quantized values."""
SHIFT: Final = 128
"""The difference of the same value in uint8 and in int8."""
_INT4: Final = (-8, 7)


@dataclass(frozen=True)
class QuantizedConstant:
    """The operands of a dequantization: (values - zero_points) * scales, for each block.

    Attributes:
        call: the call that dequantizes it; calls may read one constant with different scales.
        source: the constant, or rows of one.
        values: its quantized values; do not write to them.
        block: sizes of a block, one per dimension of the values; each divides that of the values.
        scales: floating point, one per block, in as many dimensions.
        zero_points: of the same shape; None if all are zero.
    """

    call: Node
    source: Node
    values: Tensor
    block: tuple[int, ...]
    scales: Tensor
    zero_points: Tensor | None

    @property
    def dtype(self) -> torch.dtype:
        """dtype of the quantized values."""
        return self.values.dtype

    @property
    def is_int4(self) -> bool:
        """Whether four bits hold the quantized values."""
        low, high = self.range
        return _INT4[0] <= low and high <= _INT4[1]

    @property
    def groups(self) -> int:
        """The number of blocks in a row of a matrix."""
        return self.values.shape[1] // self.block[1]

    @cached_property
    def range(self) -> tuple[int, int]:
        """The least and the largest quantized value."""
        low, high = self.values.aminmax()
        return int(low), int(high)

    def dequantized(self) -> Tensor:
        """Returns the floats that the values stand for, in the dtype of the scales."""
        scales, zeros = (self._of_elements(each) for each in (self.scales, self.zero_points))
        values: Tensor = (self.values.to(scales.dtype) - (0 if zeros is None else zeros)) * scales
        return values

    def splits(self, dim: int) -> bool:
        """Whether a dimension has several blocks."""
        return self.block[dim] != self.values.shape[dim]

    def is_per_channel(self, axis: int) -> bool:
        """Whether blocks are slices along one dimension, or several of them."""
        return not any(self.splits(dim) for dim in range(self.values.dim()) if dim != axis)

    def channel_scales(self, axis: int = 0) -> Tensor:
        """Returns the scales in float32, one for each slice along a dimension: [channels], or with groups."""
        scales = self.scales.to(torch.float32).repeat_interleave(self.block[axis], axis)
        return scales.flatten() if self.is_per_channel(axis) else scales

    def mapped(self, move: Callable[[Tensor], Tensor], block: Sequence[int]) -> QuantizedConstant:
        """Returns a constant after a function that moves values and parameters alike."""
        values, scales = move(self.values), move(self.scales)
        zeros = None if self.zero_points is None else move(self.zero_points)
        return replace(self, values=values, block=tuple(block), scales=scales, zero_points=zeros)

    def columns(self) -> Iterator[QuantizedConstant]:
        """Yields the groups of columns with one scale for each row, views of a matrix from `by_row`."""
        width = self.block[1]
        for index in range(self.groups):
            zeros = None if self.zero_points is None else self.zero_points[:, index : index + 1]
            values = self.values[:, index * width : (index + 1) * width]
            yield replace(self, values=values, scales=self.scales[:, index : index + 1], zero_points=zeros)

    def permuted(self, *dims: int) -> QuantizedConstant:
        """Returns a constant with permuted dimensions."""
        return self.mapped(lambda each: each.permute(dims), [self.block[dim] for dim in dims])

    def by_row(self) -> QuantizedConstant:
        """Returns an equal matrix, each of whose blocks is in one row, with scales in float32."""
        rows, width = self.block
        scales, zeros = self.scales.to(torch.float32).repeat_interleave(rows, 0), self.zero_points
        zeros = None if zeros is None else zeros.repeat_interleave(rows, 0)
        return replace(self, block=(1, width), scales=scales, zero_points=zeros)

    def by_element(self) -> QuantizedConstant:
        """Returns an equal constant, each of whose blocks is one element."""
        scales, zeros = self._of_elements(self.scales), self._of_elements(self.zero_points)
        return replace(self, block=(1,) * self.values.dim(), scales=scales, zero_points=zeros)

    def shifted(self, amount: int) -> QuantizedConstant:
        """Returns int8 that is less than the values by an amount, and so are the zero points."""
        if not amount:
            return self
        zeros = torch.zeros_like(self.scales) if self.zero_points is None else self.zero_points
        zeros = zeros.to(torch.float64) - amount
        values = (self.values.to(torch.int16) - amount).to(torch.int8)
        return replace(self, values=values, zero_points=zeros if bool(zeros.any()) else None)

    def signed(self) -> QuantizedConstant:
        """Returns the constant in int8 if it is uint8."""
        return self.shifted(SHIFT if self.dtype == torch.uint8 else 0)

    def _of_elements(self, parameter: Any) -> Any:
        """Returns parameters of blocks, one for each element."""
        if parameter is None:
            return None
        for dim, width in enumerate(self.block):
            parameter = parameter.repeat_interleave(width, dim)
        return parameter


Constant = Callable[[Node], Tensor | None]
"""Returns the value of a constant."""


def quantized_constant(node: Node, constant: Constant) -> QuantizedConstant | None:
    """Returns the operands of a call that dequantizes constants; None for any other node.

    A conversion of integers to floating point is one, with the scale 1.

    Args:
        node: the call.
        constant: returns the value of a constant node, and None for other nodes.
    """
    operands = _operands(node)
    if operands is None:
        return None
    source, scale, zero_point, block = operands
    shape, values = shape_of(source), constant(source)
    if values is None or dtype_of(source) not in INTEGERS or len(block) != len(shape):
        return None
    counts = [size // width for size, width in zip(shape, block, strict=True)]
    scales, zeros = (_per_block(each, constant, counts) for each in (scale, zero_point))
    if scales is None or (zeros is None and zero_point is not None):
        return None
    is_shifted = zeros is not None and bool(zeros.any())
    return QuantizedConstant(
        node, source, values.detach(), tuple(block), scales, zeros if is_shifted else None
    )


def _operands(node: Node) -> tuple[Node, Any, Any, Sequence[int]] | None:
    if node.op != "call_function":
        return None
    if node.target is aten._to_copy.default:
        source = node.all_input_nodes[0]
        is_quantized = dtype_of(source) in INTEGERS and dtype_of(node).is_floating_point
        return (source, 1.0, None, shape_of(source)) if is_quantized else None
    if node.target not in DEQUANTIZING:
        return None
    found = operands_of(node)
    return found.x, found.scale, found.zero_point, found.block


def _per_block(value: Any, constant: Constant, counts: Sequence[int]) -> Tensor | None:
    """Returns a value per block; None for a tensor that is not a constant."""
    found = constant(value) if isinstance(value, Node) else None if value is None else torch.tensor(value)
    if found is None:
        return None
    found = found.detach()
    return found.reshape(()).expand(list(counts)) if found.numel() == 1 else found.reshape(list(counts))
