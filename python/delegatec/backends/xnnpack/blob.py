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
from typing import Final

from delegatec_schemas import xnnpack_graph as schema

from delegatec.backends.common.graph_format import GraphFormat
from delegatec.delegation import Part

MAGIC: Final = b"XH00"
HEADER: Final = struct.Struct("<4x4sHIIIQ")
HEADER_SIZE: Final = 32
ALIGNMENT: Final = 16
_FORMAT: Final = GraphFormat("XnnpackBackend", schema.GraphT, b"XN01")


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
