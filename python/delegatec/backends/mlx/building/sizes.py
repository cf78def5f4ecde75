# SPDX-License-Identifier: Apache-2.0
"""Sizes as integers of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import torch

from delegatec.backends.common.sizes import ADD, DIVIDE, MULTIPLY, SUBTRACT, SizeGraph
from delegatec.backends.mlx.building.values import Array, Int, Scalar

_NODES: Final = {
    ADD: "AddInt",
    MULTIPLY: "MultiplyInt",
    SUBTRACT: "SubtractInt",
    DIVIDE: "FloorDivideInt",
}


class SizeValues(SizeGraph[Int, Array]):
    """The integers of a graph.

    Args:
        emit: appends an operation.
        tensors: returns the tensors so far.
    """

    def __init__(
        self, emit: Callable[..., None], tensors: Callable[[], Iterable[tuple[torch.Tensor, Array]]]
    ) -> None:
        self._emit = emit
        self._tensors = tensors

    def literal(self, value: int) -> Int:
        """See `SizeGraph.literal`."""
        return Int(value)

    def size_of(self, tensor: Array, dim: int) -> Int:
        """See `SizeGraph.size_of`."""
        result = Scalar()
        self._emit("SymSize", a=tensor, dim=dim, out=result)
        return Int(result)

    def apply(self, function: str, first: Int, second: Int) -> Int:
        """See `SizeGraph.apply`."""
        result = Scalar()
        self._emit(_NODES[function], a=first, b=second, out=result)
        return Int(result)

    def tensors(self) -> Iterable[tuple[torch.Tensor, Array]]:
        """See `SizeGraph.tensors`."""
        return self._tensors()
