# SPDX-License-Identifier: Apache-2.0
"""The blob of an XNNPACK delegate: a header, a FlatBuffer, and bytes.

    bytes 0 to 4     zero
    bytes 4 to 8     "XH00"
    bytes 8 to 10    size of the header: 30, little-endian as all numbers
    bytes 10 to 14   offset of the FlatBuffer
    bytes 14 to 18   its size
    bytes 18 to 22   offset of the bytes
    bytes 22 to 30   their size
    bytes 32 to ..   the FlatBuffer (schemas/xnnpack_graph.fbs), padded to a multiple of 16
    then             the bytes of constants, each at its `Bytes.offset`

The runtime frees the blob when it has loaded it, although operations other than layers read their constants
at each run. So all constants are named data of the program, and the bytes are empty.

Source: the runtime's XNNHeader and XNNCompiler (ExecuTorch 1.4.1).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.graph_format import GraphFormat
from delegatec.backends.xnnpack.checks import fill_lists, problems_of
from delegatec.delegation import Part

MAGIC: Final = b"XH00"
HEADER: Final = struct.Struct("<4x4sHIIIQ")
HEADER_SIZE: Final = 32
ALIGNMENT: Final = 16
_FORMAT: Final = GraphFormat("XnnpackBackend", schema.GraphT, b"XN01")

_LEAST_FLATBUFFER: Final = 8


@dataclass(frozen=True)
class Blob:
    """An unpacked blob.

    Attributes:
        graph: its graph, unpacked.
        constants: the bytes behind the FlatBuffer.
    """

    graph: schema.GraphT
    constants: memoryview


def write_blob(graph: schema.GraphT) -> list[Part]:
    """Returns the parts of a blob whose constants are all named data.

    Args:
        graph: the graph.
    """
    flatbuffer = _FORMAT.pack(graph)
    padding = -len(flatbuffer) % ALIGNMENT
    end = HEADER_SIZE + len(flatbuffer) + padding
    header = HEADER.pack(MAGIC, HEADER.size, HEADER_SIZE, len(flatbuffer), end, 0)
    return [header + bytes(HEADER_SIZE - len(header)) + flatbuffer + bytes(padding)]


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks everything that the runtime does, and what it relies on (`checks.problems_of`).

    Nothing is copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    data = data.cast("B")
    flatbuffer, constants = _parts(data)
    graph = _FORMAT.unpack(flatbuffer)
    fill_lists(graph)
    _FORMAT.check(problems_of(graph, len(constants)))
    return Blob(graph, constants)


def _parts(data: memoryview) -> tuple[memoryview, memoryview]:
    """Returns the FlatBuffer and the bytes behind it."""
    if len(data) < HEADER.size:
        raise _FORMAT.damaged(f"it has {len(data)} bytes, fewer than a header")
    magic, _, offset, size, bytes_offset, bytes_size = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _FORMAT.damaged(f"its header is {magic!r}, not {MAGIC!r}")
    ends = (HEADER.size, offset, offset + size, bytes_offset, bytes_offset + bytes_size)
    if size < _LEAST_FLATBUFFER or sorted(ends) != list(ends) or ends[-1] > len(data):
        text = f"a FlatBuffer at {offset} of {size} bytes, constants at {bytes_offset} of {bytes_size} bytes"
        raise _FORMAT.damaged(f"its header describes {text}, and it has {len(data)} bytes")
    return data[offset : offset + size], data[bytes_offset : bytes_offset + bytes_size]
