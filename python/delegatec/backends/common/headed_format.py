# SPDX-License-Identifier: Apache-2.0
"""Blobs of a header, a FlatBuffer, and bytes of constants: those of the Vulkan and XNNPACK delegates.

    bytes 0 to 4     zero
    bytes 4 to 8     the magic number of the delegate
    bytes 8 to 10    size of the header: 30, little-endian like all integers
    bytes 10 to 14   offset of the FlatBuffer
    bytes 14 to 18   its size
    bytes 18 to 22   offset of the bytes
    bytes 22 to 30   their size
    bytes 32 to ..   the FlatBuffer, padded to a multiple of 16
    then             the bytes of constants, each at its `Bytes.offset`

Source: the runtime's VulkanDelegateHeader and XNNHeader (ExecuTorch 1.4.1).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from delegatec.backends.common.graph_format import GraphFormat, GraphT
from delegatec.delegation import Part

HEADER: Final = struct.Struct("<4x4sHIIIQ")
HEADER_SIZE: Final = 32
ALIGNMENT: Final = 16
_LEAST_FLATBUFFER: Final = 8


class HeadedFormat(GraphFormat[GraphT]):
    """The format of a backend's blobs.

    Args:
        backend: the backend's id, for messages.
        graph: the class of the root table, unpacked.
        identifier: the FlatBuffer's file identifier.
        magic: the header's magic number.
        fill: see `GraphFormat`.
        problems: see `GraphFormat`.
        reads_header_size: whether the runtime reads the size of the header.
    """

    def __init__(
        self,
        backend: str,
        graph: type[GraphT],
        identifier: bytes,
        magic: bytes,
        fill: Callable[[GraphT], None],
        problems: Callable[[GraphT, int], Iterable[str]],
        *,
        reads_header_size: bool,
    ) -> None:
        super().__init__(backend, graph, identifier, fill, problems)
        self._magic = magic
        self._reads_header_size = reads_header_size

    def write(self, graph: Any, constants: Sequence[Part] = (), *, checked: bool = True) -> list[Part]:
        """Returns the parts of a blob.

        Args:
            graph: its graph.
            constants: the bytes after the FlatBuffer.
            checked: whether readers must accept the graph.

        Raises:
            DelegatecError: DC407, with the problems that a reader would find.
        """
        if checked:
            self.check_graph(graph, sum(map(len, constants)))
        flatbuffer = self.pack(graph)
        padding = -len(flatbuffer) % ALIGNMENT
        end = HEADER_SIZE + len(flatbuffer) + padding
        size = sum(map(len, constants))
        header = HEADER.pack(self._magic, HEADER.size, HEADER_SIZE, len(flatbuffer), end, size)
        return [header + bytes(HEADER_SIZE - len(header)) + flatbuffer + bytes(padding), *constants]

    def split(self, data: memoryview) -> tuple[memoryview, memoryview]:
        """Returns the FlatBuffer and the bytes of constants of an untrusted blob; nothing is copied.

        Raises:
            DelegatecError: DC407.
        """
        if len(data) < HEADER.size:
            raise self.damaged(f"it has {len(data)} bytes, fewer than a header")
        magic, header, offset, size, bytes_offset, bytes_size = HEADER.unpack_from(data)
        if magic != self._magic:
            raise self.damaged(f"its header is {magic!r}, not {self._magic!r}")
        begin = header if self._reads_header_size else HEADER.size
        ends = (HEADER.size, begin, offset, offset + size, bytes_offset, bytes_offset + bytes_size)
        if size < _LEAST_FLATBUFFER or sorted(ends) != list(ends) or ends[-1] > len(data):
            text = (
                f"a FlatBuffer at {offset} of {size} bytes, constants at {bytes_offset} of {bytes_size} bytes"
            )
            raise self.damaged(f"its header describes {text}, and it has {len(data)} bytes")
        return data[offset : offset + size], data[bytes_offset : bytes_offset + bytes_size]
