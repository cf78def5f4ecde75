# SPDX-License-Identifier: Apache-2.0
"""Representations of floating-point values by integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import torch
from torch import Tensor
from torch.fx import Node

from delegatec.edge.arguments import dtype_of, shape_of
from delegatec.edge.quantization.scale import Quantization

NARROW: Final = (torch.int8, torch.int16)
"""dtypes of quantized values; int32 and int64 values are accumulators."""


class UnsupportedError(Exception):
    """A floating-point call cannot be computed with integers; the message is the reason."""


@dataclass(frozen=True)
class Quantized:
    """A value (node - zero) * scale, limited to [low, high].

    Attributes:
        node: an integer tensor.
        scale: one, or one per channel.
        zero: an integer; 0 for accumulators.
        limit: a bound of |node - zero|.
        axis: the dimension of channels; None for a single scale.
        low: the lower limit of the value.
        high: the upper limit of the value.
    """

    node: Node
    scale: tuple[float, ...]
    zero: int
    limit: int
    axis: int | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def dtype(self) -> torch.dtype:
        """dtype of the integers."""
        return dtype_of(self.node)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the tensor."""
        return shape_of(self.node)

    @property
    def is_narrow(self) -> bool:
        """Whether the integers are quantized values with one scale, rather than accumulators."""
        return self.dtype in NARROW and self.axis is None

    @property
    def bound(self) -> float:
        """A bound of the absolute value."""
        found = self.limit * max(self.scale)
        return min(found, max(abs(self.low), abs(self.high)))

    def clamped(self, low: float, high: float) -> Quantized:
        """Returns the value with narrower limits."""
        low, high = max(low, self.low), min(high, self.high)
        return replace(self, low=min(low, high), high=high)

    @property
    def knots(self) -> Tensor:
        """The integers for which a table has entries."""
        if self.dtype == torch.int8:
            return torch.arange(-128, 128, dtype=torch.float64)
        return torch.arange(-256, 257, dtype=torch.float64) * 128

    @property
    def values(self) -> Tensor:
        """The values of these integers."""
        return self.of(self.knots)

    def of(self, quantized: Tensor) -> Tensor:
        """Dequantizes the quantized values, rounded to float32 like the results of a dequantization."""
        found = (quantized.to(torch.float64) - self.zero).to(torch.float32) * self.scale[0]
        return found.to(torch.float64).clamp(self.low, self.high)


@dataclass(frozen=True)
class TableFunction:
    """A function of quantized values with one scale.

    Attributes:
        source: the quantized values.
        values: float64, the result for each of the knots of `source`.
    """

    source: Quantized
    values: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the tensor."""
        return self.source.shape

    @cached_property
    def bound(self) -> float:
        """A bound of the finite absolute values."""
        return float(self.values.nan_to_num(0.0, 0.0, 0.0).abs().max())


class Fixed:
    """A constant.

    Args:
        values: floating point, or a function that returns them when they are first used.
        shape: sizes of the tensor; by default those of `values`.
        parameters: with which the values are exactly quantized values.
    """

    def __init__(
        self,
        values: Tensor | Callable[[], Tensor],
        shape: Sequence[int] | None = None,
        parameters: Quantization | None = None,
    ) -> None:
        self._values = values
        self.parameters: Final = parameters
        assert shape is not None or isinstance(values, Tensor)
        self.shape: Final = tuple(values.shape if isinstance(values, Tensor) else shape or ())

    @property
    def values(self) -> Tensor:
        """The values."""
        if not isinstance(self._values, Tensor):
            self._values = self._values()
        return self._values

    @cached_property
    def bound(self) -> float:
        """A bound of the absolute value."""
        finite = self.values[self.values.isfinite()]
        return float(finite.abs().max()) if finite.numel() else 0.0

    @property
    def scalar(self) -> float | None:
        """The only value; None if there are several."""
        return float(self.values.flatten()[0]) if math.prod(self.shape) == 1 else None

    @cached_property
    def uniform(self) -> Tensor | None:
        """The first value, in one dimension, if all are equal to it; else None."""
        values = self.values.reshape(-1)
        return values[:1] if values.numel() and bool((values == values[0]).all()) else None


@dataclass(frozen=True)
class Floating:
    """A value mantissa * scale / 2^exponent.

    Attributes:
        mantissa: int32, below 2^16.
        exponent: int32, from 0 to 31.
        scale: one.
    """

    mantissa: Node
    exponent: Node
    scale: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the tensor."""
        return shape_of(self.mantissa)


Quantity = Quantized | TableFunction | Fixed
"""A floating-point value of the program."""
