# SPDX-License-Identifier: Apache-2.0
"""Reader of `.ptd` files of any compiler, checked like programs. Copies no weights."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from delegatec_schemas import flat_tensor as schema

from delegatec.files import HEAD_BYTES, kind_of_file
from delegatec.flatbuffer import Table, fail
from delegatec.program.reader.layout import NOT_OURS, Layout, mapped, slice_segment
from delegatec.program.reader.shape import Shape, read_shape

IDENTIFIER = b"FT01"
_VERSION = 0
# Little endian, eight bytes into the file: magic, header length, offset of the rest of the FlatBuffer, its
# size, segment base, size of all segments.
_MAGIC = b"FH01"
_HEADER = struct.Struct("<4sIQQQQ")
_HEADER_OFFSET = 8


@dataclass(frozen=True, slots=True)
class NamedData:
    """Named data.

    Attributes:
        segment: the segment that contains it; several names may share one.
        offset: offset in the file in bytes.
        data: its bytes, a view of the file: those of the tensor, or the whole segment.
        shape: None for bytes that are not a tensor.
    """

    segment: int
    offset: int
    data: memoryview = field(repr=False)
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class FlatTensors:
    """A `.ptd` file.

    Attributes:
        file_bytes: size of the file.
        entries: key -> data, in the order of the file.
    """

    file_bytes: int
    entries: dict[str, NamedData]


def read_flat_tensors(path: Path | str) -> FlatTensors:
    """Reads a file, which stays mapped as long as any value read from it.

    Args:
        path: the file.

    Raises:
        DelegatecError: DC350 not a .ptd file, DC351 truncated, DC352 damaged, DC353 duplicate entries, DC354
            unsupported version.
        OSError: it cannot be opened.
    """
    return parse_flat_tensors(mapped(path, ".ptd data file"))


def parse_flat_tensors(file: bytes | memoryview) -> FlatTensors:
    """Reads a data file from memory. See `read_flat_tensors`."""
    view = memoryview(file).cast("B").toreadonly()
    layout = _read_layout(view)
    root = Table.root(schema.FlatTensor, layout.flatbuffer, "DC352")
    version = root.scalar("Version")
    if version != _VERSION:
        fail("DC354", f"unsupported format version {version}: this reader supports {_VERSION}")
    segments = [
        (layout.segment_base + table.scalar("Offset"), slice_segment(layout, table))
        for table in root.children("Segments")
    ]
    entries: dict[str, NamedData] = {}
    for table in root.children("NamedData"):
        key, index = table.text("Key"), table.scalar("SegmentIndex")
        if key in entries:
            fail("DC353", f"duplicate entry {key!r}", "the file is damaged, or its writer is faulty")
        if index >= len(segments):
            table.fail(f"segment {index} is out of range: there are {len(segments)}")
        offset, data = segments[index]
        tensor = table.child("TensorLayout")
        shape = None if tensor is None else read_shape(tensor)
        if shape is not None:
            if shape.nbytes > len(data):
                table.fail(f"{shape.nbytes} bytes exceed a segment of {len(data)} bytes")
            data = data[: shape.nbytes]
        entries[key] = NamedData(index, offset, data, shape)
    return FlatTensors(len(view), entries)


def _read_layout(file: memoryview) -> Layout:
    size = len(file)
    if size < _HEADER_OFFSET or file[4:8] != IDENTIFIER:
        fail("DC350", f"not a .ptd data file: {kind_of_file(bytes(file[:HEAD_BYTES]))}", NOT_OURS)
    if size < _HEADER_OFFSET + _HEADER.size:
        fail("DC351", f"the file ends at byte {size}, inside its header")
    magic, length, start, flatbuffer, base, data_size = _HEADER.unpack_from(file, _HEADER_OFFSET)
    if magic != _MAGIC or length < _HEADER.size:
        fail(
            "DC352", f"invalid header {magic!r} of {length} bytes: expected {_MAGIC!r}, {_HEADER.size} bytes"
        )
    end = start + flatbuffer
    if end > size or base > size or base + data_size > size:
        fail(
            "DC351",
            f"the file has {size} bytes; its header specifies {max(end, base + data_size)}",
            "the file is truncated",
        )
    if data_size and base < end:
        fail("DC352", f"the segments start at byte {base}, inside the FlatBuffer of {end} bytes")
    return Layout(flatbuffer=file[:end], segments=file[base : base + data_size], segment_base=base)
