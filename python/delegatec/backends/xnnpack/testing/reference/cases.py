# SPDX-License-Identifier: Apache-2.0
"""Blobs of one operation, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch

from delegatec.backends.xnnpack.blob import read_blob
from delegatec.backends.xnnpack.checking.values import INPUT, OUTPUT
from delegatec.backends.xnnpack.operands import NO_VALUE
from delegatec.backends.xnnpack.reference.executor import XnnpackReferenceExecutor
from delegatec.backends.xnnpack.reference.testing import FLOATS, Blob, Content, Quantized

NO_BIAS: Final = NO_VALUE
EXACT: Final = 0.0


@dataclass(frozen=True)
class In:
    """An input."""

    content: Content


@dataclass(frozen=True)
class K:
    """A constant.

    Attributes:
        content: its elements.
        inline: whether it is after the FlatBuffer, instead of named data.
    """

    content: Content
    inline: bool = False


@dataclass(frozen=True)
class Rows:
    """A float input that a Convert quantizes row by row.

    Attributes:
        tensor: the input.
        dims: dimensions of a row.
    """

    tensor: torch.Tensor
    dims: int = 1


@dataclass(frozen=True)
class Out:
    """A result. Its sizes are not declared, since the runtime computes them.

    Attributes:
        dtype: of its elements.
        scale: of quantized values; 0 for other dtypes.
        zero_point: of quantized values.
    """

    dtype: torch.dtype = torch.float32
    scale: float = 0.0
    zero_point: int = 0


@dataclass(frozen=True)
class Case:
    """A blob of one operation.

    Attributes:
        name: of the test.
        operation: of the format.
        fields: of its table, in order; values are In, K, Rows and Out.
        limits: of its node.
        tolerance: of the largest difference from the runtime, relative to the largest value of a result; for
            quantized values, in quantization steps.
        optional: whether the runtime has a kernel for it only on some CPUs.
    """

    name: str
    operation: str
    fields: Sequence[Any]
    limits: tuple[float, float] | None = None
    tolerance: float = EXACT
    optional: bool = False

    @cached_property
    def inputs(self) -> list[torch.Tensor]:
        """The inputs."""
        found = []
        for field in self.fields:
            if isinstance(field, In):
                content: Any = field.content
                found.append(content.tensor if isinstance(content, Quantized) else content)
            elif isinstance(field, Rows):
                found.append(field.tensor)
        return found

    def blob(self) -> Blob:
        """Returns its blob."""
        blob = Blob()
        made = {index: _input(blob, field) for index, field in enumerate(self.fields) if _is_input(field)}
        fields = [made.get(index, field) for index, field in enumerate(self.fields)]
        blob.node(self.operation, *[_field(blob, field) for field in fields], limits=self.limits)
        return blob

    def executor(self) -> XnnpackReferenceExecutor:
        """Returns the executor of its blob."""
        blob = self.blob()
        executor = XnnpackReferenceExecutor(read_blob(memoryview(blob.data())))
        executor.load_named_data(blob.named_data())
        return executor

    def run(self) -> list[torch.Tensor]:
        """Runs it in the reference executor."""
        return self.executor()(self.inputs)


def _is_input(field: Any) -> bool:
    return isinstance(field, In | Rows)


def _input(blob: Blob, field: Any) -> int:
    """Adds an input; inputs come first, since they are the first arguments of a delegate."""
    if isinstance(field, In):
        return blob.like(field.content, INPUT)
    source = blob.like(field.tensor, INPUT)
    rows = blob.rows(field.tensor.shape, field.dims)
    blob.node("Convert", source, rows, 0)
    return rows


def _field(blob: Blob, field: Any) -> Any:
    if isinstance(field, K):
        return blob.constant(field.content, inline=field.inline)
    if isinstance(field, Out):
        if field.scale:
            return blob.quantized(field.dtype, (), field.scale, field.zero_point, OUTPUT)
        return blob.value(FLOATS[field.dtype], (), flags=OUTPUT)
    return field


_GENERATOR: Final = torch.Generator().manual_seed(0)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns normally distributed floats."""
    return torch.randn(shape, generator=_GENERATOR).to(dtype)


def quantized_values(
    *shape: int, scale: float = 0.05, zero_point: int = 3, dtype: torch.dtype = torch.int8
) -> Quantized:
    """Returns random quantized values; of uint8 the zero point is 128 higher."""
    found = torch.randint(-128, 128, shape, generator=_GENERATOR)
    if dtype == torch.uint8:
        return Quantized((found + 128).to(dtype), scale, zero_point + 128)
    return Quantized(found.to(dtype), scale, zero_point)


def integers(*shape: int, least: int, most: int) -> torch.Tensor:
    """Returns random integers of [least, most]."""
    return torch.randint(least, most + 1, shape, generator=_GENERATOR)
