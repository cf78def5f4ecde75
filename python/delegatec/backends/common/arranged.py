# SPDX-License-Identifier: Apache-2.0
"""Elements of a constant in another order, such as channels-last filters, permuted when they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch

from delegatec.edge.scaled import ScaledTensor

Arrange: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
"""Permutes, splits and flattens dimensions, only by views."""


class ArrangedElements:
    """The elements of an arrangement of a tensor, in row-major order, as a sequence.

    A slice copies only the rows that it needs.

    Args:
        tensor: of any dtype; its memory is not copied. A `ScaledTensor` is multiplied slice by slice.
        arrange: returns a view of a tensor of that shape.
    """

    def __init__(self, tensor: torch.Tensor, arrange: Arrange) -> None:
        tensor = tensor.detach()
        self._dtype = tensor.dtype
        self._scale: torch.Tensor | None = None
        if isinstance(tensor, ScaledTensor):
            channels = tensor.scale.view(-1, 1).expand(-1, tensor.numel() // tensor.scale.numel())
            self._scale = arrange(channels.view(tensor.shape))
            tensor = tensor.source
        self._source = arrange(tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the arrangement."""
        return tuple(self._source.shape)

    @property
    def is_row_major(self) -> bool:
        """Whether the elements have the order of the tensor."""
        return self._source.is_contiguous()

    def numel(self) -> int:
        """Returns the number of elements."""
        return self._source.numel()

    def __getitem__(self, section: slice) -> torch.Tensor:
        start, end, _ = section.indices(self.numel())
        found = _elements(self._source, start, end)
        if self._scale is None:
            return found
        return (found.double() * _elements(self._scale, start, end)).to(self._dtype)


def _elements(tensor: torch.Tensor, start: int, end: int) -> torch.Tensor:
    """Returns elements of a tensor of any strides in row-major order, of one dimension."""
    while tensor.dim() > 1:
        width = tensor[0].numel()
        first, last = start // width, -(-end // width)
        if last - first > 1:
            return tensor[first:last].reshape(-1)[start - first * width : end - first * width]
        tensor, start, end = tensor[first], start - first * width, end - first * width
    return tensor[start:end].contiguous()
