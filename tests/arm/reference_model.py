# SPDX-License-Identifier: Apache-2.0
"""The reference model as the runtime of TOSA delegates: the rest of a program runs as always."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import torch

from delegatec.backends import builtin_backends
from delegatec.backends.arm.backend import CODEC, TosaBackend
from delegatec.backends.arm.blob import read_blob
from delegatec.backends.arm.dtypes import STORED
from delegatec.backends.arm.operators.rewrites import REWRITES
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.arm.reference import TosaReferenceExecutor, executor
from delegatec.backends.arm.specification import TosaSpecification
from delegatec.delegation import CompileSpec, ReferenceExecutor
from delegatec.delegation.registry import BackendRegistry
from tests.arm.tosa_tools import UnpredictableError, check, run


class ModelExecutor(ReferenceExecutor):
    """Runs a graph in the reference model.

    Args:
        graph: its FlatBuffer.
        specification: that it must conform to.

    Raises:
        InvalidGraphError: with the messages of tosa-opt.
    """

    converts_outputs = True

    def __init__(self, graph: bytes, specification: TosaSpecification) -> None:
        check(graph, specification)
        self._graph = graph
        parsed = read_blob(memoryview(graph))
        self._inputs = [STORED[value.dtype] for value in parsed.inputs]
        self.num_inputs = len(self._inputs)
        self._outputs = [(STORED[value.dtype], value.shape) for value in parsed.outputs]

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the graph.

        Where positions of a SCATTER are repeated, torch does not specify the results, either; they are those
        of our executor.

        Raises:
            UnpredictableError: for another reason.
        """
        given = [value.to(dtype) for value, dtype in zip(inputs, self._inputs, strict=True)]
        try:
            results = run(self._graph, given)
        except UnpredictableError:
            with _repeated_positions() as found:
                results = TosaReferenceExecutor(read_blob(memoryview(self._graph)))(given)
            if not any(found):
                raise
        return [
            _typed(value, dtype).reshape(shape)
            for value, (dtype, shape) in zip(results, self._outputs, strict=True)
        ]


@contextmanager
def _repeated_positions() -> Iterator[list[bool]]:
    """Whether each SCATTER that our executor runs has repeated positions."""
    found, scatter = [], executor._KERNELS["SCATTER"]

    def kernel(values: torch.Tensor, indices: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        found.append(bool((indices.sort(1).values.diff(dim=1) == 0).any()))
        return scatter(values, indices, source)

    with patch.dict(executor._KERNELS, SCATTER=kernel):
        yield found


def _typed(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a result, which is in another dtype if numpy lacks its own."""
    if value.dtype == dtype:
        return value
    assert dtype.is_floating_point and value.itemsize == dtype.itemsize, f"{value.dtype} instead of {dtype}"
    return value.view(dtype)


class _Tosa(TosaBackend):
    def reference(self, blob: memoryview, compile_specs: Sequence[CompileSpec]) -> ReferenceExecutor:
        """See `Backend.reference`."""
        return ModelExecutor(bytes(blob), self.settings(compile_specs).specification)


def backends() -> BackendRegistry:
    """Returns the built-in backends, with TOSA delegates run by the reference model."""
    tosa = _Tosa("tosa", CODEC, TABLE, REWRITES)
    return BackendRegistry([tosa if each.name == "tosa" else each for each in builtin_backends()])
