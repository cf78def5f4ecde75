# SPDX-License-Identifier: Apache-2.0
"""A file that is mapped into memory, and can be read beside the mapping."""

from __future__ import annotations

import errno
import mmap
import os
import weakref
from typing import BinaryIO

import numpy as np


class MappedFile:
    """A read-only mapping of a file, and the open file itself.

    Whoever copies bytes of the mapping to another file does it for a third less processor time by reading
    them from the file into a small buffer: no page has to be mapped. Both give the same bytes as long as
    nobody writes to the file, as with any mapping of it.

    Args:
        file: open for reading, of at least one byte. It may be closed afterwards: this has a descriptor of
            its own, which is closed when this object goes. Views of the mapping keep that alive, without it.

    Attributes:
        view: the file's bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._address = _address(self.view)
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def find(self, data: bytes | memoryview) -> int | None:
        """Where in the file some bytes of memory lie.

        Args:
            data: contiguous bytes, by any way a view of the mapping or not.

        Returns:
            The offset of the first one in the file; None if they are not in the mapping, or are none.
        """
        if not data:
            return None
        offset = _address(data) - self._address
        return offset if 0 <= offset <= len(self.view) - len(data) else None

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills a buffer with the file's bytes, without use of the mapping.

        Args:
            buffer: writable, contiguous bytes.
            offset: of the first byte in the file.

        Raises:
            OSError: the file cannot be read, or has become shorter.
        """
        done = 0
        while done < len(buffer):
            count = os.preadv(self._descriptor, [buffer[done:]], offset + done)
            if not count:
                raise OSError(errno.EIO, "the mapped file was truncated")
            done += count


def _address(data: bytes | memoryview) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)
