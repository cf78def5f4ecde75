# SPDX-License-Identifier: Apache-2.0
"""Sizes as values of a graph: the runtime recomputes them if an input has another shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.common.sizes import ADD, DIVIDE, MULTIPLY, SUBTRACT, SizeGraph, Sizes

_OPERATORS: Final = {ADD: "add", MULTIPLY: "mul", SUBTRACT: "sub", DIVIDE: "floordiv"}
"""The runtime's scalar operators."""


class _SizeValues(SizeGraph[int, int]):
    """The values of a graph, by id."""

    def __init__(
        self,
        add: Callable[[int, Any], int],
        call: Callable[..., None],
        tensors: Callable[[], Iterable[tuple[torch.Tensor, int]]],
    ) -> None:
        self._add = add
        self._call = call
        self._tensors = tensors
        self._literals: dict[int, int] = {}

    def literal(self, value: int) -> int:
        """See `SizeGraph.literal`."""
        if value not in self._literals:
            self._literals[value] = self._add(schema.Content.Int, schema.IntT(value))
        return self._literals[value]

    def size_of(self, tensor: int, dim: int) -> int:
        """See `SizeGraph.size_of`."""
        return self._result("sym_size.int", tensor, self.literal(dim))

    def apply(self, function: str, first: int, second: int) -> int:
        """See `SizeGraph.apply`."""
        return self._result(_OPERATORS[function], first, second)

    def tensors(self) -> Iterable[tuple[torch.Tensor, int]]:
        """See `SizeGraph.tensors`."""
        return self._tensors()

    def _result(self, name: str, *operands: int) -> int:
        # the runtime sets the value when it builds the graph, with the largest sizes of the tensors
        result = self._add(schema.Content.SymInt, schema.SymIntT(0))
        self._call(name, *operands, result)
        return result


def sizes_of(
    add: Callable[[int, Any], int],
    call: Callable[..., None],
    tensors: Callable[[], Iterable[tuple[torch.Tensor, int]]],
) -> Sizes[int, int]:
    """Returns the sizes of a graph.

    Args:
        add: adds a value to the graph, and returns its id.
        call: appends a call.
        tensors: returns the tensors so far, and their ids.
    """
    return Sizes(_SizeValues(add, call, tensors))
