# SPDX-License-Identifier: Apache-2.0
"""The blob of an MLX delegate: a header and a FlatBuffer.

    bytes 0 to 4     zero
    bytes 4 to 8     "MLX0"
    bytes 8 to 16    offset of the end of the FlatBuffer from the start of the blob, little-endian
    bytes 16 to 24   size of what follows it, zero: constants are named data of the program
    bytes 24 to ..   the FlatBuffer (schemas/mlx_graph.fbs), padded to a multiple of 16

Source: the runtime's MLXLoader (ExecuTorch 1.5.1).
"""

from __future__ import annotations

import struct
from typing import Final

from delegatec_schemas import mlx_graph as schema

from delegatec.backends.common.graph_format import GraphFormat
from delegatec.backends.mlx.checks import fill_lists, problems_of
from delegatec.delegation import Part

MAGIC: Final = b"MLX0"
HEADER: Final = struct.Struct("<4x4sQQ")
_ALIGNMENT: Final = 16
_FORMAT: Final = GraphFormat("MLXBackend", schema.GraphT, b"", fill_lists, problems_of)


def write_blob(graph: schema.GraphT, *, checked: bool = True) -> list[Part]:
    """Returns the parts of a blob.

    Args:
        graph: the graph.
        checked: whether `read_blob` must accept it.

    Raises:
        DelegatecError: DC407, with the problems for which `read_blob` would refuse it.
    """
    if checked:
        _FORMAT.check_graph(graph)
    flatbuffer = _FORMAT.pack(graph)
    padding = -(HEADER.size + len(flatbuffer)) % _ALIGNMENT
    end = HEADER.size + len(flatbuffer) + padding
    return [HEADER.pack(MAGIC, end, 0) + flatbuffer + bytes(padding)]


def read_blob(data: memoryview) -> schema.GraphT:
    """Reads a blob and checks that everything in it is in bounds (`checks.problems_of`).

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    data = data.cast("B")
    if len(data) < HEADER.size:
        raise _FORMAT.damaged(f"it has {len(data)} bytes, fewer than its header")
    magic, end, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _FORMAT.damaged(f"its magic is {magic!r}, not {MAGIC!r}")
    if not HEADER.size < end <= len(data):
        raise _FORMAT.damaged(f"its FlatBuffer ends at {end} of {len(data)} bytes")
    graph = _FORMAT.unpack(data[HEADER.size : end])
    _FORMAT.check_graph(graph)
    return graph
