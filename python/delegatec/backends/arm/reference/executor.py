# SPDX-License-Identifier: Apache-2.0
"""Executor of a TOSA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from delegatec.backends.arm.blob import Graph
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.reference import elementwise, images, moves, products
from delegatec.backends.arm.reference.values import constant

Kernel = Callable[..., torch.Tensor]
"""Computes an operator from its operands and its attributes."""
_KERNELS: Final[Mapping[str, Kernel]] = {
    **elementwise.KERNELS,
    **products.KERNELS,
    **moves.KERNELS,
    **images.KERNELS,
}


class TosaReferenceExecutor:
    """Runs a graph on tensors of its types; integers of 48 bits are int64.

    Args:
        graph: its graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._constants = {value: constant(value) for value in graph.constants}

    @property
    def num_inputs(self) -> int:
        """See `HasNumInputs`."""
        return len(self._graph.inputs)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph.

        Args:
            inputs: in the order of the graph.

        Returns:
            Its outputs.
        """
        values: dict[Value, Any] = dict(self._constants)
        values.update(zip(self._graph.inputs, inputs, strict=True))
        for operation in self._graph.operations:
            operands = [values[each] for each in operation.inputs]
            (result,) = operation.outputs
            values[result] = _KERNELS[operation.name](*operands, **operation.attributes)
        return [values[value] for value in self._graph.outputs]
