# SPDX-License-Identifier: Apache-2.0
"""Writes gigabytes of constants for as little processor time as the kernel takes for it."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Sequence
from typing import BinaryIO, Final

from delegatec.files import MappedFile

# What is written at a time, up to a multiple of it in the file. Small enough to stay in a processor's cache
# between reading and writing, and for the kernel to find the memory for it at once: for writes of 128 KiB or
# more at a multiple of that it looks for runs of as much free memory, and where memory is fragmented spends
# more time on moving pages than on the bytes (measured: up to 3 s a GiB, and 0.3 s in pieces of 64 KiB).
PIECE: Final = 64 * 1024


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
        self._position = 0
        self._buffer = memoryview(bytearray(PIECE)) if sources else memoryview(b"")
        if size >= PIECE:
            _reserve(file, size)

    def write(self, data: bytes | memoryview) -> None:
        """Appends contiguous bytes.

        Raises:
            OSError: they cannot be written, or not be read from their source.
        """
        first = self._position
        self._position += len(data)
        if len(data) < PIECE:
            self._file.write(data)
            return
        source, start = self._find(data)
        view = memoryview(data)
        offset = 0
        while offset < len(view):
            end = min(len(view), offset + PIECE - (first + offset) % PIECE)
            piece = view[offset:end]
            if source is not None:
                piece = self._buffer[: end - offset]
                source.read_into(piece, start + offset)
            self._file.write(piece)
            offset = end

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
