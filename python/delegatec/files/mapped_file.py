# SPDX-License-Identifier: Apache-2.0
"""Memory-mapped files."""

from __future__ import annotations

import errno
import mmap
import os
import weakref
from typing import BinaryIO


class MappedFile:
    """A read-only mapping of a file, with the open file itself.

    Copying bytes to another file is a third cheaper by reading the file into a small buffer than from the
    mapping: no page has to be mapped. As with any mapping, both give the same bytes unless someone writes to
    the file.

    Args:
        file: open for reading, not empty. The caller may close it: this object duplicates the descriptor, and
            closes it when it is collected. Views keep the mapping alive.

    Attributes:
        view: the bytes of the file.
        checksums: (offset, size) -> CRC-32 of ranges that were read, if recorded by the reader.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self.checksums: dict[tuple[int, int], int] = {}
        self._address = _address(self.view)
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def find(self, data: bytes | memoryview) -> int | None:
        """Finds the offset in the file of bytes in memory.

        Args:
            data: contiguous bytes.

        Returns:
            The offset of the first byte; None if the bytes are empty or outside the mapping.
        """
        if not data:
            return None
        offset = _address(data) - self._address
        return offset if 0 <= offset <= len(self.view) - len(data) else None

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills a buffer from the file, without touching the mapping.

        Args:
            buffer: writable, contiguous bytes.
            offset: offset of the first byte in the file.

        Raises:
            OSError: the file cannot be read, or was truncated.
        """
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], offset + done)
            if not count:
                raise OSError(errno.EIO, "the mapped file was truncated")
            done += count


def _address(data: bytes | memoryview) -> int:
    import numpy as np  # Without it, the command line can say that it is missing.

    return int(np.frombuffer(data, np.uint8).ctypes.data)
