# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: lower a module to TOSA, and run it in the reference executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch

from delegatec.backends.arm import backend
from delegatec.backends.arm.backend import TOSA
from delegatec.backends.arm.blob import Graph, read_blob, write_blob
from delegatec.backends.arm.building.graph_builder import GraphBuilder
from delegatec.backends.arm.operators.rewrites import WITHOUT_INTEGERS
from delegatec.backends.arm.operators.table import TABLE
from delegatec.backends.common import testing
from delegatec.backends.common.record import Record
from delegatec.backends.common.testing import Call, Compiled, Function, check_results, eager
from delegatec.backends.common.testing.recording import recorded
from delegatec.delegation import Part

TOLERANCE: Final = (2e-5, 2e-6)
"""Relative and absolute tolerance of float32."""


def compile_module(module: torch.nn.Module, args: tuple[Any, ...], **options: str) -> Compiled:
    """Exports a module for example inputs and lowers it to TOSA."""
    return testing.compile_module("tosa", module, args, TOSA.preserved_operators(), **options)


def graph_of(compiled: Compiled) -> Graph:
    """Returns the graph of the only delegate."""
    (blob,) = compiled.blobs()
    return read_blob(memoryview(blob))


def operators(compiled: Compiled) -> list[str]:
    """Returns the names of the operators of the only delegate, bodies last, without constants."""
    return [operation.name for part in graph_of(compiled).walk() for operation in part.operations]


def run_case(
    function: Function | torch.nn.Module,
    args: tuple[torch.Tensor, ...],
    expected: str = "",
    tolerance: tuple[float, float] = TOLERANCE,
    **options: str,
) -> Compiled:
    """Checks that a function becomes one delegate with the results of eager mode.

    Args:
        function: of tensors; returns a tensor or several.
        args: example inputs, also for the run.
        expected: the TOSA operators, in order, see `operators`; not checked if empty.
        tolerance: relative and absolute.
        **options: of the backend.

    Returns:
        The compiled program, for further checks.
    """
    module = function if isinstance(function, torch.nn.Module) else Call(function)
    compiled = compile_module(module, args, **options)
    assert (len(compiled.delegates), compiled.left) == (1, []), compiled.left
    assert operators(compiled) == expected.split() or not expected
    wanted = list(eager(module, args))
    check_results(compiled(*args), wanted, [value.dtype for value in wanted], *tolerance)
    return compiled


@contextmanager
def recorded_lowerings() -> Iterator[Record]:
    """Records the operators that each row emits, and the rewrites that are applied."""
    write = write_blob
    with recorded(TABLE, WITHOUT_INTEGERS) as record:

        def written(builder: GraphBuilder) -> list[Part]:
            for part in builder.walk():
                for operation, origin in zip(part.operations, part.origins, strict=True):
                    for node in origin:
                        record.rows[str(node.target)].add(operation.name)
            return write(builder)

        with patch.object(backend, "write_blob", written):
            yield record
