# SPDX-License-Identifier: Apache-2.0
"""Scales with their zero points, by which the quantized values of a tensor are dequantized."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import shape_of
from delegatec.edge.quantization.constant import SHIFT, Constant
from delegatec.edge.quantization.operators import operands_of

_NEAR: Final = 1e-4


@dataclass(frozen=True)
class Quantization:
    """How floats are quantized: x = (q - zero_point) * scale, with q from `low` to `high`.

    Attributes:
        dtype: of the quantized values.
        scales: one, or one per channel.
        zero_point: the quantized value of 0.
        low: the least quantized value.
        high: the largest quantized value.
        axis: the dimension of channels; None for a single scale.
        nan: the quantized value of NaN.
    """

    dtype: torch.dtype
    scales: tuple[float, ...]
    zero_point: int
    low: int
    high: int
    axis: int | None = None
    nan: int = 0

    @staticmethod
    def full_range(dtype: torch.dtype, *scales: float, zero_point: int = 0) -> Quantization:
        """Returns one with all values of a dtype."""
        limits = torch.iinfo(dtype)
        return Quantization(dtype, scales, zero_point, limits.min, limits.max)

    @property
    def scale(self) -> float:
        """The scale, of the first channel if there are several."""
        return self.scales[0]

    @property
    def limit(self) -> int:
        """A bound of |q - zero_point|."""
        return max(self.high - self.zero_point, self.zero_point - self.low)

    @property
    def arguments(self) -> tuple[float, int, int, int, torch.dtype]:
        """The arguments of `QUANTIZE` and `DEQUANTIZE` after the tensor."""
        return self.scale, self.zero_point, self.low, self.high, self.dtype

    def quantize(self, values: Tensor) -> Tensor:
        """Returns the quantized values, computed in float64."""
        shape = [-1 if dim == self.axis else 1 for dim in range(values.dim())]
        scales = torch.tensor(self.scales, dtype=torch.float64).view(shape)
        found = (torch.round(values.to(torch.float64) / scales) + self.zero_point).clamp(self.low, self.high)
        return found.nan_to_num(self.nan).to(self.dtype)

    def dequantize(self, q: Tensor) -> Tensor:
        """Returns the dequantized values, with one scale."""
        return (q.to(torch.float32) - self.zero_point) * self.scale

    def value(self, q: float) -> float:
        """Returns the dequantized value."""
        return (q - self.zero_point) * self.scale

    def exactly(self, value: float) -> float:
        """Returns the quantized value that stands for a float; not an integer if none does."""
        return value / self.scale + self.zero_point

    def nearest(self, value: float) -> float:
        """Returns the float that the quantized value nearest to a float stands for."""
        return self.value(round(min(max(self.exactly(value), self.low), self.high)))

    def holds(self, value: float) -> bool:
        """Whether a quantized value stands for a float, within the precision of float32."""
        found = self.exactly(value)
        return self.low <= round(found) <= self.high and abs(found - round(found)) < _NEAR

    def signed(self) -> Quantization:
        """Returns the same for int8 instead of uint8."""
        if self.dtype != torch.uint8:
            return self
        ends = {name: getattr(self, name) - SHIFT for name in ("zero_point", "low", "high", "nan")}
        return replace(self, dtype=torch.int8, **ends)


def quantization_of(
    node: Node, constant: Constant = lambda _: None, *, signed: bool = False
) -> Quantization | None:
    """Returns how a call quantizes or dequantizes.

    None if scales or zero points are computed, are of groups, or are not finite and above 0, or if there are
    several zero points. NaN becomes 0, as in eager mode on the CPU.

    Args:
        node: the call.
        constant: returns the value of a constant node, and None for other nodes.
        signed: whether uint8 counts as int8.
    """
    operands = operands_of(node)
    scales, zeros = (_floats(each, constant) for each in (operands.scale, operands.zero_point))
    if not scales or not zeros or len({*zeros}) != 1:
        return None
    axis = None
    if isinstance(operands.scale, Node):
        try:
            axis = operands.channel_dim()
        except ValueError:
            return None
    if len(scales) == 1 and axis is not None:
        scales *= shape_of(operands.x)[axis]
    if not all(0 < each < float("inf") for each in scales):
        return None
    ends = operands.low, operands.high
    found = Quantization(operands.dtype, tuple(scales), int(zeros[0]), *ends, axis)
    return found.signed() if signed else found


def _floats(value: Any, constant: Constant) -> list[float] | None:
    """Returns scales or zero points; None if they are computed."""
    if not isinstance(value, Node):
        return [float(value or 0)]
    found = constant(value)
    return None if found is None else [float(each) for each in found.flatten().tolist()]
