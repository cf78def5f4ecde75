# SPDX-License-Identifier: Apache-2.0
"""Segments: byte ranges after the FlatBuffer of a file."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

from delegatec.delegation import Part
from delegatec.delegation.protocol.parts import chunks
from delegatec.diagnostics.arguments import check_items, wrong_argument
from delegatec.files import MappedFile
from delegatec.program.alignment import align
from delegatec.program.file.chunks import ChunkWriter

# The contents of a segment: parts, each with its offset in the segment.
Parts = list[tuple[int, Part]]

# Size of the root offset and the identifier of a FlatBuffer, which precede the file's header.
_ROOT_AND_IDENTIFIER: Final = 8


class Segments:
    """A growing list of segments.

    Args:
        alignment: alignment of every segment in bytes; a power of two.

    Attributes:
        base_alignment: required alignment of the segment base in bytes.
        spans: (offset from the segment base, size) of each segment in bytes.
        parts: the contents of each segment.
    """

    def __init__(self, alignment: int) -> None:
        self.base_alignment = alignment
        self._alignment = alignment
        self.spans: list[tuple[int, int]] = []
        self.parts: list[Parts] = []

    @property
    def size(self) -> int:
        """Number of bytes from the segment base to the end of the last segment."""
        return max(map(sum, self.spans), default=0)

    def add(self, parts: Parts, alignment: int = 1) -> int:
        """Adds a segment, and returns its index.

        Args:
            parts: its contents, by increasing offset.
            alignment: alignment in bytes, if it needs more than the others; a power of two.
        """
        size = max((offset + len(data) for offset, data in parts), default=0)
        alignment = max(self._alignment, alignment)
        self.base_alignment = max(self.base_alignment, alignment)
        self.spans.append((align(self.size, alignment), size))
        self.parts.append(parts)
        return len(self.spans) - 1

    def add_part(self, segment: int, offset: int, size: int) -> int:
        """Adds a segment that is a part of another one, and returns its index.

        Args:
            segment: index of the other one.
            offset: in the other one, in bytes.
            size: in bytes.
        """
        self.spans.append((self.spans[segment][0] + offset, size))
        self.parts.append([])
        return len(self.spans) - 1


def concatenate(blob: Sequence[Part]) -> Parts:
    """Concatenates parts."""
    parts: Parts = []
    end = 0
    for part in blob:
        parts.append((end, part))
        end += len(part)
    return parts


def check_target(function: str, file: object, sources: object) -> None:
    """Checks the destination that a user passed to write a file to; raises DelegatecError DC415."""
    help = 'open it: with open(path, "wb") as file'
    closed = getattr(file, "closed", False) or not getattr(file, "writable", lambda: True)()
    if not hasattr(file, "write") or isinstance(file, io.TextIOBase) or closed:
        raise wrong_argument(function, "file", file, "a binary file, open for writing", help)
    check_items(function, "sources", sources, (list, tuple), MappedFile, "a list of MappedFile")


def write_file(
    file: BinaryIO,
    flatbuffer: bytes,
    segments: Segments,
    header: Callable[[int, int], bytes],
    sources: Sequence[MappedFile] = (),
) -> dict[tuple[int, int], int]:
    """Writes a FlatBuffer with an embedded header, then segments, in chunks.

    Args:
        file: a binary file, open for writing, at its beginning.
        flatbuffer: finished, with a file identifier.
        segments: the segments.
        header: returns the header for the segment base and the size of all segments. Its length shifts the
            FlatBuffer, and so must be a multiple of its alignment.
        sources: files that bytes of the segments may be mapped from.

    Returns:
        (offset, size) -> CRC-32 of the ranges of the file that were copied from sources.
    """
    shift = len(header(0, 0))
    root = struct.unpack_from("<I", flatbuffer)[0] + shift
    base = align(len(flatbuffer) + shift, segments.base_alignment)
    out = ChunkWriter(file, base + segments.size, sources)
    out.write(struct.pack("<I", root) + flatbuffer[4:_ROOT_AND_IDENTIFIER])
    out.write(header(base, segments.size))
    out.write(memoryview(flatbuffer)[_ROOT_AND_IDENTIFIER:])
    out.write(b"\0" * (base - shift - len(flatbuffer)))
    position = base
    for (start, _), parts in zip(segments.spans, segments.parts, strict=True):
        for offset, data in parts:
            target = base + start + offset
            out.write(b"\0" * (target - position))
            for piece in chunks(data):
                out.write(piece)
            position = target + len(data)
    return out.checksums
