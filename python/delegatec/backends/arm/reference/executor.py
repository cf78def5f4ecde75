# SPDX-License-Identifier: Apache-2.0
"""Executor of a TOSA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.blob import Graph
from delegatec.backends.arm.building.operation import Value
from delegatec.backends.arm.dtypes import STORED
from delegatec.backends.arm.reference import conversions, elementwise, images, moves, reductions
from delegatec.backends.arm.reference.values import constant

Kernel = Callable[..., torch.Tensor]
"""Computes an operator from its operands and its attributes."""
_KERNELS: Final[Mapping[str, Kernel]] = {
    **elementwise.KERNELS,
    **moves.KERNELS,
    **images.KERNELS,
    **reductions.KERNELS,
}

_DTYPES: Final = {**STORED, DType.INT48: torch.int64}


class TosaReferenceExecutor:
    """Runs a graph on tensors of its types; integers of 48 bits are int64.

    Args:
        graph: its graph.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._constants = {value: constant(value) for value in graph.constants}

    @property
    def converts_outputs(self) -> bool:
        """int64 is int32 in a graph."""
        return True

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
        for value, given in zip(self._graph.inputs, inputs, strict=True):
            values[value] = given.to(_DTYPES[value.dtype])
        for operation in self._graph.operations:
            operands = [values[each] for each in operation.inputs]
            (result,) = operation.outputs
            attributes = dict(operation.attributes)
            kernel = _KERNELS.get(operation.name)
            if kernel is None:
                kernel = conversions.KERNELS[operation.name]
                attributes["dtype"] = _DTYPES[result.dtype]
            found = kernel(*operands, **attributes)
            assert found.dtype == _DTYPES[result.dtype], (operation.name, found.dtype)
            assert tuple(found.shape) == result.shape, (operation.name, found.shape, result.shape)
            values[result] = found
        return [values[value] for value in self._graph.outputs]
