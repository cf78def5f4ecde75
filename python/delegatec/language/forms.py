# SPDX-License-Identifier: Apache-2.0
"""Forms in which a weight is stored: dtype, scales and quantized values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from delegatec.edge.quantization.affine import choose_qparams, quantize

_RANGES: Final = {"int8": (-128, 127), "int4": (-8, 7)}
_FLOATS: Final = {"float32": torch.float32, "float16": torch.float16}
# Elements that are converted at once: temporary values stay in the CPU's cache.
_CHUNK: Final = 2**17
# The least scale with which XNNPACK computes: rows with smaller weights, as those of unused tokens, are 0.
_LEAST_SCALE: Final = 2.0**-59
# First scales of int4, relative to that whose range has the largest value in its middle between 7 and 8.
_FACTORS: Final = (7.5 / 7, 1.0, 0.93, 0.86)


@dataclass(frozen=True)
class Form:
    """How a weight is stored.

    Attributes:
        dtype: "float32", "float16", "int8", or "int4", whose values are stored in int8.
        group_size: elements of a row that share a scale; 0 for all of a row. Integers only.
        is_transposed: whether the library has columns first; rows are stored first.
        per_expert: whether the weight is one of a mixture, with a matrix for each expert.
    """

    dtype: str
    group_size: int = 0
    is_transposed: bool = False
    per_expert: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether the weight has quantized values and scales."""
        return self.dtype in _RANGES

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest quantized value."""
        return _RANGES[self.dtype]

    def block(self, columns: int) -> list[int]:
        """Returns the sizes of the part of a weight [rows, columns] that shares a scale."""
        return [1, self.group_size or columns]

    def names(self, name: str) -> tuple[str, ...]:
        """Returns the names of the stored tensors of a weight."""
        return (f"{name}_quantized", f"{name}_scale") if self.is_integer else (name,)

    def matrices(self, name: str, weight: Tensor) -> dict[str, Tensor]:
        """Returns the parts of a weight by name, whose rows are stored: itself, or a matrix for each expert.

        Args:
            name: the weight's name.
            weight: as the library has it, on any device.
        """
        each = (
            {f"{name}_{index}": part for index, part in enumerate(weight)}
            if self.per_expert
            else {name: weight}
        )
        return {part: matrix.mT if self.is_transposed else matrix for part, matrix in each.items()}

    def reader(self, rows: Callable[[slice], Tensor], index: int) -> Callable[[slice], Tensor]:
        """Returns a function that reads rows of a part of a weight.

        Args:
            rows: reads rows of the weight, as the library has it.
            index: the part.
        """
        if not self.per_expert and not self.is_transposed:
            return rows
        whole = rows(slice(index, index + 1))[0] if self.per_expert else rows(slice(None))
        matrix = whole.mT.contiguous() if self.is_transposed else whole
        return lambda part: matrix[part]

    def empty(self, name: str, value: Tensor) -> dict[str, Tensor]:
        """Returns the stored tensors of a weight by name, uninitialized, on the device of the weight.

        Args:
            name: the weight's name.
            value: the weight, on any device.
        """
        names = self.names(name)
        if not self.is_integer:
            return {names[0]: torch.empty(value.shape, dtype=_FLOATS[self.dtype], device=value.device)}
        rows, columns = value.shape
        values = torch.empty((rows, columns), dtype=torch.int8, device=value.device)
        scale = torch.empty((rows, columns // self.block(columns)[1]), device=value.device)
        return dict(zip(names, (values, scale), strict=True))

    def chunks(self, name: str, value: Callable[[slice], Tensor], rows: int, row: int) -> Chunks:
        """Yields the stored tensors of a weight in parts: a name, the first row, and values.

        Args:
            name: the weight's name.
            value: returns rows of the weight, of any float dtype.
            rows: number of rows.
            row: elements of a row.
        """
        step = max(1, _CHUNK // max(row, 1))
        for start in range(0, rows, step):
            part = value(slice(start, start + step))
            converted = (
                quantized_rows(part.float(), self) if self.is_integer else (part.to(_FLOATS[self.dtype]),)
            )
            for stored, values in zip(self.names(name), converted, strict=True):
                yield stored, start, values


Chunks = Iterator[tuple[str, int, Tensor]]


def quantized_rows(value: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    """Returns quantized values, int8 [rows, columns], and scales, float32 [rows, groups].

    Those of int8 are torchao's of `quantize_` with symmetric weights.

    Args:
        value: float32 [rows, columns].
        form: the form, of integers.
    """
    block = form.block(value.shape[1])
    scale, _ = choose_qparams(value, "SYMMETRIC", block, torch.int8, *form.limits)
    scale = _not_too_small(scale.reshape(value.shape[0], -1))
    if form.dtype == "int4":
        scale = _fitted(value.view(len(value), -1, block[1]), scale, form.limits)
        if form.group_size:
            # as XNNPACK has them
            scale = scale.to(torch.bfloat16).to(torch.float32)
    return quantize(value, block, scale, None, torch.int8, *form.limits), scale


def _not_too_small(scale: Tensor) -> Tensor:
    return torch.where(scale < _LEAST_SCALE, 1.0, scale)


def _fitted(groups: Tensor, scale: Tensor, limits: tuple[int, int]) -> Tensor:
    """Returns scales with little squared error: by least squares, for the quantized values of other scales.

    The largest value of a group is often so far from the others that a smaller scale, which cuts it off, has
    less error.

    Args:
        groups: the weight, [rows, groups, elements].
        scale: that at which no value is cut off by more than a half, [rows, groups].
        limits: the least and the largest quantized value.
    """
    best, most = scale, torch.zeros_like(scale)
    for factor in _FACTORS:
        values = (groups * (scale * factor).reciprocal()[:, :, None]).round_().clamp_(*limits)
        product = (groups * values).sum(2)
        fitted = product / values.square_().sum(2).clamp_(min=1)
        # by which the squared error is less than that of zeros
        gain = product * fitted
        best = torch.where(gain > most, fitted, best)
        most = torch.maximum(gain, most)
    return _not_too_small(best)
