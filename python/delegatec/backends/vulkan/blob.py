# SPDX-License-Identifier: Apache-2.0
"""The blob of a Vulkan delegate: a header, a FlatBuffer, and bytes.

    bytes 0 to 4     zero
    bytes 4 to 8     "VH00"
    bytes 8 to 10    size of the header: 30, little-endian as all numbers
    bytes 10 to 14   offset of the FlatBuffer
    bytes 14 to 18   its size
    bytes 18 to 22   offset of the bytes
    bytes 22 to 30   their size
    bytes 32 to ..   the FlatBuffer (schemas/vulkan_graph.fbs), padded to a multiple of 16
    then             the bytes of constants, each at its `Bytes.offset`

Constants may also be named data of the program, next to the blobs: then one copy serves several of them.

Source: the runtime's VulkanDelegateHeader and VulkanBackend (ExecuTorch 1.4.1).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from delegatec_schemas import vulkan_graph as schema

from delegatec.backends.common.graph_format import GraphFormat
from delegatec.backends.vulkan.checks import fill_lists, problems_of
from delegatec.delegation import Part

HEADER_MAGIC: Final = b"VH00"
_HEADER: Final = struct.Struct("<4x4sHIIIQ")
_HEADER_SIZE: Final = 32
_ALIGNMENT: Final = 16
_FORMAT: Final = GraphFormat("VulkanBackend", schema.GraphT, b"VK00")


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
    padding = -len(flatbuffer) % _ALIGNMENT
    end = _HEADER_SIZE + len(flatbuffer) + padding
    header = _HEADER.pack(HEADER_MAGIC, _HEADER.size, _HEADER_SIZE, len(flatbuffer), end, 0)
    return [header + bytes(_HEADER_SIZE - len(header)) + flatbuffer + bytes(padding)]


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks that everything in it is in bounds (`checks.problems_of`). Nothing is copied.

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
    if len(data) < _HEADER.size:
        raise _FORMAT.damaged(f"it has {len(data)} bytes, fewer than a header")
    magic, header, offset, size, bytes_offset, bytes_size = _HEADER.unpack_from(data)
    if magic != HEADER_MAGIC:
        raise _FORMAT.damaged(f"its header is {magic!r}, not {HEADER_MAGIC!r}")
    ends = (header, offset, offset + size, bytes_offset, bytes_offset + bytes_size)
    if header < _HEADER.size or size < 8 or sorted(ends) != list(ends) or ends[-1] > len(data):
        text = f"a FlatBuffer at {offset} of {size} bytes, constants at {bytes_offset} of {bytes_size} bytes"
        raise _FORMAT.damaged(f"its header describes {text}, and it has {len(data)} bytes")
    return data[offset : offset + size], data[bytes_offset : bytes_offset + bytes_size]
