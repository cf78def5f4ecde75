# SPDX-License-Identifier: Apache-2.0
"""Graphs of a program's blobs, read from its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from delegatec.delegation import Backend, BlobGraph, plugins
from delegatec.program.reader import read_program


def blob_graphs(
    pte: Path | str, debug_map: Mapping[str, Any], backends: Iterable[Backend]
) -> dict[str, dict[str, BlobGraph]]:
    """Returns the graphs that backends read from their blobs.

    Args:
        pte: the mapped file.
        debug_map: the program's debug map, for the names of its delegates.
        backends: the registry; backends that have graphs are queried.

    Returns:
        Method -> name of a delegate -> its graph.

    Raises:
        DelegatecError: DC35x, the file cannot be read; errors of `graph`; DC410 for a faulty plug-in.
    """
    by_id = {backend.id: backend for backend in backends}
    program = read_program(pte)
    graphs: dict[str, dict[str, BlobGraph]] = {}
    for name, method in debug_map["methods"].items():
        for delegate, read in zip(method["delegates"], program.method(name).delegates, strict=True):
            backend = by_id.get(read.id)
            graph = None if backend is None else plugins.call(Backend.graph, backend, read.blob)
            if graph is not None:
                graphs.setdefault(name, {})[delegate["name"]] = graph
    return graphs
