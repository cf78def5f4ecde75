# SPDX-License-Identifier: Apache-2.0
"""Segments: runs of bytes behind the FlatBuffer of a file, and how both are written."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

from delegatec.delegation import Part
from delegatec.delegation.parts import pieces
from delegatec.files import MappedFile
from delegatec.program.alignment import align
from delegatec.program.file.pieces import PieceWriter

# What a segment is made of: parts, each with its offset in the segment.
Parts = list[tuple[int, Part]]

# A FlatBuffer with an identifier begins with these bytes; a header of the file stands behind them.
_ROOT_AND_IDENTIFIER: Final = 8


class Segments:
    """A growing list of segments.

    Args:
        alignment: in bytes, of every segment; a power of two.

    Attributes:
        base_alignment: in bytes, what the segment base has to be a multiple of.
        spans: (offset from the segment base, size) in bytes of each.
        parts: what each of them is made of.
    """

    def __init__(self, alignment: int) -> None:
        self.base_alignment = alignment
        self._alignment = alignment
        self.spans: list[tuple[int, int]] = []
        self.parts: list[Parts] = []

    @property
    def size(self) -> int:
        """Bytes from the segment base to the end of the last one."""
        return sum(self.spans[-1]) if self.spans else 0

    def add(self, parts: Parts, alignment: int = 1) -> int:
        """Index of a new segment.

        Args:
            parts: what it is made of, by rising offsets.
            alignment: in bytes, where it needs more than the others; a power of two.
        """
        size = max((offset + len(data) for offset, data in parts), default=0)
        alignment = max(self._alignment, alignment)
        self.base_alignment = max(self.base_alignment, alignment)
        self.spans.append((align(self.size, alignment), size))
        self.parts.append(parts)
        return len(self.spans) - 1


def concatenate(blob: Sequence[Part]) -> Parts:
    """Parts that follow each other."""
    parts: Parts = []
    end = 0
    for part in blob:
        parts.append((end, part))
        end += len(part)
    return parts


def write_file(
    file: BinaryIO,
    flatbuffer: bytes,
    segments: Segments,
    header: Callable[[int, int], bytes],
    sources: Sequence[MappedFile] = (),
) -> None:
    """Writes a FlatBuffer with a header inside, then segments, piece by piece.

    Args:
        file: open for writing in binary, at its beginning.
        flatbuffer: finished, with a file identifier.
        segments: what follows.
        header: makes the header of the segment base and the size of all segments. Its length moves what
            follows, and so is a multiple of what the FlatBuffer is aligned to.
        sources: files that bytes of the segments may be mapped from.
    """
    shift = len(header(0, 0))
    root = struct.unpack_from("<I", flatbuffer)[0] + shift
    base = align(len(flatbuffer) + shift, segments.base_alignment)
    out = PieceWriter(file, base + segments.size, sources)
    out.write(struct.pack("<I", root) + flatbuffer[4:_ROOT_AND_IDENTIFIER])
    out.write(header(base, segments.size))
    out.write(memoryview(flatbuffer)[_ROOT_AND_IDENTIFIER:])
    out.write(b"\0" * (base - shift - len(flatbuffer)))
    position = base
    for (start, _), parts in zip(segments.spans, segments.parts, strict=True):
        for offset, data in parts:
            target = base + start + offset
            out.write(b"\0" * (target - position))
            for piece in pieces(data):
                out.write(piece)
            position = target + len(data)
