# SPDX-License-Identifier: Apache-2.0
"""Writes gigabytes of constants for as little processor time as the kernel takes for it."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Sequence
from typing import BinaryIO, Final

from delegatec.files import MappedFile

# What is written at a time. Small enough to stay in a processor's cache between reading and writing, and for
# the kernel to find the memory for it at once: for writes of megabytes it looks for runs of as much free
# memory, and where that is fragmented spends more time on moving pages than on the bytes.
PIECE: Final = 128 * 1024


class PieceWriter:
    """Appends runs of bytes to a file in pieces.

    Args:
        file: open for writing in binary, at its beginning.
        size: bytes that the file is going to have.
        sources: what bytes may be mapped from; these are read from the file, not by the mapping.
    """

    def __init__(self, file: BinaryIO, size: int, sources: Sequence[MappedFile] = ()) -> None:
        self._file = file
        self._sources = sources
        self._buffer = memoryview(bytearray(PIECE)) if sources else memoryview(b"")
        if size >= PIECE:
            _reserve(file, size)

    def write(self, data: bytes | memoryview) -> None:
        """Appends contiguous bytes.

        Raises:
            OSError: they cannot be written, or not be read from their source.
        """
        if len(data) < PIECE:
            self._file.write(data)
            return
        source, start = self._find(data)
        view = memoryview(data)
        for offset in range(0, len(view), PIECE):
            piece = view[offset : offset + PIECE]
            if source is not None:
                buffer = self._buffer[: len(piece)]
                source.read_into(buffer, start + offset)
                piece = buffer
            self._file.write(piece)

    def _find(self, data: bytes | memoryview) -> tuple[MappedFile | None, int]:
        for source in self._sources:
            offset = source.find(data)
            if offset is not None:
                return source, offset
        return None, 0


def _reserve(file: BinaryIO, size: int) -> None:
    """Gives a file its blocks at once, where its file system can; they cost more one by one."""
    # Other classes may hand on the descriptor of a file whose bytes are not those that are written to them.
    if not isinstance(file, io.BufferedWriter | io.FileIO):
        return
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
