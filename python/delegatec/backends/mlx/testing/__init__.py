# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests: lower a module for the MLX delegate, and run it in the reference executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch

from delegatec.backends.common import testing
from delegatec.backends.common.record import Record
from delegatec.backends.common.testing import Compiled
from delegatec.backends.common.testing.recording import recorded
from delegatec.backends.mlx.backend import MLX
from delegatec.backends.mlx.blob import read_blob
from delegatec.backends.mlx.building import graph_builder
from delegatec.backends.mlx.building.draft import Draft
from delegatec.backends.mlx.building.slots import Slots
from delegatec.backends.mlx.operands import NODE_NAMES
from delegatec.backends.mlx.operators.rewrites import REWRITES
from delegatec.backends.mlx.operators.table import TABLE
from delegatec.edge import EdgeProgram


def compile_program(program: EdgeProgram, precision: str = "fp32", **options: str) -> Compiled:
    """Lowers a program for the delegate, in place; `options` are the backend's other options."""
    return testing.compile_program("mlx", program, precision=precision, **options)


def compile_module(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    precision: str = "fp32",
    dynamic_shapes: Any = None,
    **options: str,
) -> Compiled:
    """Exports a module for example inputs and lowers it for the delegate.

    Args:
        module: the module.
        args: example inputs.
        precision: "fp32", "fp16" or "bf16".
        dynamic_shapes: as of torch.export.
        **options: the backend's other options.
    """
    options["precision"] = precision
    return testing.compile_module("mlx", module, args, PRESERVED, dynamic_shapes, **options)


@contextmanager
def recorded_lowerings() -> Iterator[Record]:
    """Records the nodes that each row emits, and the rewrites that are applied."""
    with recorded(TABLE, REWRITES) as record:

        def slots(draft: Draft) -> Slots:
            for chain in draft.walk():
                for operation in chain.operations:
                    if operation.origin is not None:
                        record.rows[str(operation.origin.target)].add(operation.name)
            return Slots(draft)

        with patch.object(graph_builder, "Slots", slots):
            yield record


def operations(blob: bytes) -> list[str]:
    """Returns the names of the nodes of a blob's main chain, in order."""
    graph = read_blob(memoryview(blob))
    return [NODE_NAMES[each.nodeType] for each in graph.chains[graph.mainChain].instructions]


PRESERVED: Final = MLX.preserved_operators()
