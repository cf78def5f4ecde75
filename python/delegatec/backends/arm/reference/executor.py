# SPDX-License-Identifier: Apache-2.0
"""Executor of a TOSA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from delegatec_schemas.tosa_graph import DType

from delegatec.backends.arm.blob import Graph
from delegatec.backends.arm.building.operation import REGIONS, Operation, Value, regions_of
from delegatec.backends.arm.conformance.problem import problem
from delegatec.backends.arm.dtypes import STORED
from delegatec.backends.arm.reference import block_scaled, conversions, elementwise, images, moves, reductions
from delegatec.backends.arm.reference.values import constant
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.delegation import ReferenceExecutor
from delegatec.diagnostics import DelegatecError, Diagnostic
from delegatec.diagnostics.exceptions import first_line, shortened

Kernel = Callable[..., torch.Tensor]
"""Computes an operator from its operands and its attributes."""
_KERNELS: Final[Mapping[str, Kernel]] = {
    **elementwise.KERNELS,
    **moves.KERNELS,
    **images.KERNELS,
    **reductions.KERNELS,
}

_DTYPES: Final = {**STORED, DType.INT48: torch.int64}


# Exceptions of kernels and rules for operands and attributes that no conforming graph has.
_UNFIT: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
_EVERYTHING: Final = TosaSpecification.parse(
    "TOSA-1.1+INT+FP+int16+int4+bf16+fft+doubleround+inexactround+fp8e4m3+fp8e5m2+cf+mxfp+mxfp_conv"
)
_MOST_ITERATIONS: Final = 1 << 20
"""A loop of a damaged graph may be endless."""


class TosaReferenceExecutor(ReferenceExecutor):
    """Runs a graph on tensors of its types; integers of 48 bits are int64.

    Args:
        graph: its graph.

    Raises:
        DelegatecError: DC408 for the first operator that breaks a rule of TOSA.
    """

    converts_outputs = True  # int32 to a caller's int64

    def __init__(self, graph: Graph) -> None:
        self.num_inputs = len(graph.inputs)
        self._graph = graph
        for part in graph.walk():
            for operation in part.operations:
                try:
                    found = problem(operation, _EVERYTHING)
                except _UNFIT as error:
                    raise _unsupported(operation, first_line(error)) from error
                if found is not None:
                    raise _unsupported(operation, found)
        used = {value for part in graph.walk() for each in part.operations for value in each.inputs}
        try:
            self._constants = {
                value: constant(value) for part in graph.walk() for value in part.constants if value in used
            }
        except _UNFIT as error:
            raise DelegatecError(
                [Diagnostic("DC408", f"a constant of the graph: {first_line(error)}")]
            ) from error

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph.

        Args:
            inputs: in the order of the graph.

        Returns:
            Its outputs.

        Raises:
            DelegatecError: DC408; the inputs are not those of the graph, or an operator cannot run.
        """
        if [tuple(given.shape) for given in inputs] != [value.shape for value in self._graph.inputs]:
            shapes = ", ".join(str(list(given.shape)) for given in inputs)
            wanted = ", ".join(map(str, self._graph.inputs))
            raise DelegatecError([Diagnostic("DC408", f"inputs of shapes {shapes}", expected=wanted)])
        return self._run(
            self._graph,
            [given.to(_DTYPES[value.dtype]) for value, given in zip(self._graph.inputs, inputs, strict=True)],
        )

    def _run(self, graph: Graph, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph, or the graph of a body."""
        constants = ((value, self._constants[value]) for value in graph.constants if value in self._constants)
        values: dict[Value, Any] = dict(constants)
        values.update(zip(graph.inputs, inputs, strict=True))
        for operation in graph.operations:
            try:
                if operation.name in REGIONS:
                    found = self._run_bodies(operation, [values[each] for each in operation.inputs])
                else:
                    found = _run(operation, values)
            except _UNFIT as error:
                raise _unsupported(operation, first_line(error)) from error
            values.update(zip(operation.outputs, found, strict=True))
        absent = [value.name for value in graph.outputs if value not in values]
        if absent:
            name = shortened(repr(absent[0]))
            raise DelegatecError([Diagnostic("DC408", f"no operator computes the output {name}")])
        return [values[value] for value in graph.outputs]

    def _run_bodies(self, operation: Operation, operands: list[torch.Tensor]) -> list[torch.Tensor]:
        first, second = (self._graph.bodies[name] for name in regions_of(operation))
        if operation.name == "COND_IF":
            return self._run(first if operands[0].item() else second, operands[1:])
        for _ in range(_MOST_ITERATIONS):
            if not self._run(first, operands)[0].item():
                return operands
            operands = self._run(second, operands)
        raise ValueError(f"more than {_MOST_ITERATIONS} iterations")


def _run(operation: Operation, values: Mapping[Value, Any]) -> list[torch.Tensor]:
    """Returns the results of an operator, whose operands have values."""
    operands = [values[each] for each in operation.inputs]
    if operation.name in block_scaled.KERNELS:
        return block_scaled.KERNELS[operation.name](operation, *operands)
    (result,) = operation.outputs
    attributes = dict(operation.attributes)
    kernel = _KERNELS.get(operation.name)
    if kernel is None:
        kernel = conversions.KERNELS[operation.name]
        attributes["dtype"] = _DTYPES[result.dtype]
    found = kernel(*operands, **attributes)
    if found.dtype != _DTYPES[result.dtype] or tuple(found.shape) != result.shape:
        raise ValueError(f"its result is {found.dtype}{list(found.shape)}, not {result}")
    return [found]


def _unsupported(operation: Operation, message: str) -> DelegatecError:
    names = ", ".join(str(value) for value in operation.inputs)
    return DelegatecError([Diagnostic("DC408", f"{operation.name} of {names or 'nothing'}: {message}")])
