# SPDX-License-Identifier: Apache-2.0
"""The parts of a `.pte` file: the FlatBuffer, and the segments after it."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from delegatec.files import HEAD_BYTES, check_regular, kind_of_file
from delegatec.flatbuffer import Table, fail

# The extended header: eight bytes into the file, after the root offset and the identifier of the FlatBuffer.
# Little endian: magic, header length, size of the FlatBuffer, segment base and, in headers of at least 32
# bytes, the size of all segments.
_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQ")
_SEGMENT_DATA_SIZE = struct.Struct("<Q")
_HEADER_OFFSET = 8
IDENTIFIER = b"ET12"
NOT_OURS = "pass a file that `delegatec lower` (.pte) or `delegatec weights` (.ptd) wrote"


@dataclass(frozen=True)
class Layout:
    """The parts of a file.

    Attributes:
        flatbuffer: the FlatBuffer, with the extended header inside.
        segments: all bytes from the segment base.
        segment_base: bytes from the start of the file to `segments`.
    """

    flatbuffer: memoryview
    segments: memoryview
    segment_base: int


def read_layout(file: memoryview) -> Layout:
    """Finds the parts of a file.

    Args:
        file: all bytes of the file.

    Raises:
        DelegatecError: DC350 if it is not a .pte file, DC351 if it is truncated.
    """
    size = len(file)
    if size < 8 or file[4:8] != IDENTIFIER:
        fail("DC350", f"not a .pte program: {kind_of_file(bytes(file[:HEAD_BYTES]))}", NOT_OURS)
    if file[_HEADER_OFFSET:][: len(_MAGIC)] != _MAGIC:
        return Layout(flatbuffer=file, segments=file[size:], segment_base=size)
    if size < _HEADER_OFFSET + _HEADER.size:
        fail("DC351", f"the file ends at byte {size}, inside its extended header")
    _, length, program_size, base = _HEADER.unpack_from(file, _HEADER_OFFSET)
    if length < _HEADER.size:
        fail("DC352", f"invalid extended header of {length} bytes: expected at least {_HEADER.size}")
    data_size = size - base
    if length >= _HEADER.size + _SEGMENT_DATA_SIZE.size:
        end = _HEADER_OFFSET + _HEADER.size + _SEGMENT_DATA_SIZE.size
        if size < end:
            fail("DC351", f"the file ends at byte {size}, inside its extended header")
        (data_size,) = _SEGMENT_DATA_SIZE.unpack_from(file, _HEADER_OFFSET + _HEADER.size)
    if base == 0:  # no segments
        base, data_size = program_size, 0
    if program_size > size or base > size or base + data_size > size:
        specified = max(program_size, base + max(0, data_size))
        fail("DC351", f"the file has {size} bytes; its header specifies {specified}", "the file is truncated")
    if base < program_size:
        fail("DC352", f"the segments start at byte {base}, inside the FlatBuffer of {program_size} bytes")
    return Layout(flatbuffer=file[:program_size], segments=file[base : base + data_size], segment_base=base)


def mapped(path: Path | str, kind: str) -> memoryview:
    """Maps a file, for as long as any view of it exists.

    Args:
        path: the file.
        kind: what it should be, for the message.

    Raises:
        DelegatecError: DC350 it is empty.
        OSError: it cannot be opened, or is not a regular file.
    """
    check_regular(path)
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        if size == 0:
            fail("DC350", f"not a {kind}: it is empty", NOT_OURS)
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))


def slice_segment(layout: Layout, table: Table) -> memoryview:
    """Returns the bytes of a DataSegment."""
    offset, size = table.scalar("Offset"), table.scalar("Size")
    if offset + size > len(layout.segments):
        table.fail(f"bytes {offset} to {offset + size} exceed the segments of {len(layout.segments)} bytes")
    return layout.segments[offset : offset + size]
