# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: lower a module for the MPS delegate, and run it in the reference executor."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._ops import OpOverload

from delegatec.backends.common import testing
from delegatec.backends.common.record import Record
from delegatec.backends.common.testing import Compiled
from delegatec.backends.common.testing.recording import recorded
from delegatec.backends.mps.backend import MPS
from delegatec.backends.mps.blob import Blob, read_blob
from delegatec.backends.mps.building.draft import Draft
from delegatec.backends.mps.operands import OPERATION_NAMES
from delegatec.backends.mps.operators.rewrites import REWRITES
from delegatec.backends.mps.operators.table import TABLE
from delegatec.backends.mps.reference.executor import MpsReferenceExecutor
from delegatec.backends.mps.reference.unspecified import Unspecified
from delegatec.delegation import Part
from delegatec.delegation.plugins import CheckedExecutor
from delegatec.edge import EdgeProgram


def compile_program(program: EdgeProgram, precision: str = "fp32", **options: str) -> Compiled:
    """Lowers a program for the delegate, in place; `options` are the backend's other options."""
    return testing.compile_program("mps", program, precision=precision, **options)


@contextmanager
def recorded_lowerings() -> Iterator[Record]:
    """Records the operations that each row emits, and the rewrites that are applied."""
    write = Draft.blob
    with recorded(TABLE, REWRITES) as record:

        def blob(draft: Draft) -> list[Part]:
            for operation in draft.operations:
                if operation.origin is not None:
                    name = OPERATION_NAMES[operation.node.mpsnodeUnionType]
                    record.rows[str(operation.origin.target)].add(name)
            return write(draft)

        with patch.object(Draft, "blob", blob):
            yield record


def compile_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    precision: str = "fp32",
    preserve: Collection[OpOverload] = (),
    **options: str,
) -> Compiled:
    """Exports a module for example inputs and lowers it for the delegate."""
    return testing.compile_module("mps", module, args, preserve, precision=precision, **options)


def operations(blob: Blob | bytes) -> list[str]:
    """Returns the names of a blob's operations, in order."""
    graph = (blob if isinstance(blob, Blob) else read_blob(memoryview(blob))).graph
    return [OPERATION_NAMES[node.mpsnodeUnionType] for node in graph.mpsNodes]


def checked_executor(blob: Blob, unspecified: Unspecified) -> CheckedExecutor:
    """Returns the reference executor with one choice of unspecified behavior, as a delegate runs it."""
    return CheckedExecutor(MPS, MpsReferenceExecutor(blob, unspecified))
