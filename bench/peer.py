# SPDX-License-Identifier: Apache-2.0
"""The peer's way from an exported program to a `.pte`, as its documentation has it."""

from __future__ import annotations

import json
import logging
import types
from pathlib import Path

import torch
from executorch.exir import to_edge_transform_and_lower
from torch.export import ExportedProgram


def lower(exported: ExportedProgram, backend: str, path: Path) -> None:
    """Lowers a program and writes it.

    Args:
        exported: the program; it may be changed.
        backend: "portable" or "mps" (fp32).
        path: the file to write.
    """
    partitioner = [_mps_partitioner()] if backend == "mps" else []
    program = to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()
    with open(path, "wb") as file:
        program.write_to_file(file)


def _mps_partitioner():  # type: ignore[no-untyped-def]
    from executorch.backends.apple.mps.partition import MPSPartitioner
    from executorch.exir.backend.backend_details import CompileSpec

    return MPSPartitioner([CompileSpec("use_fp16", bytes([False]))])


def prepare() -> None:
    """Imports its MPS backend, lets it be quiet, and lets it write constants of minus infinity and of True.

    It writes a graph as JSON for flatc, and flatc does not read Python's `-Infinity`, nor `true` for a float:
    without this, it fails on every model with masked attention.
    """
    from executorch.backends.apple.mps.serialization import mps_graph_serialize

    def dumps(*args: object, **kwargs: object) -> str:
        text = json.dumps(*args, **kwargs)  # type: ignore[arg-type]
        return text.replace("-Infinity", "-inf").replace('"fill_value": true', '"fill_value": 1.0')

    # Importing its MPS backend sets the root logger to DEBUG, which would cost it time.
    logging.getLogger().setLevel(logging.WARNING)
    mps_graph_serialize.json = types.SimpleNamespace(dumps=dumps)


def version() -> str:
    """Names and versions of the peer and of torch."""
    from importlib.metadata import version as of

    return f"executorch {of('executorch')}, torch {torch.__version__}"
