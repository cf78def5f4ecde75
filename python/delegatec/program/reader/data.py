# SPDX-License-Identifier: Apache-2.0
"""Lookup of the bytes of tensors and delegates."""

from __future__ import annotations

from dataclasses import dataclass

from delegatec_schemas.program import DataLocation

from delegatec.flatbuffer import Table
from delegatec.program.reader.layout import Layout, slice_segment


@dataclass(frozen=True)
class Offsets:
    """A table of offsets into a segment. Entry 0 means "no data"."""

    segment: memoryview
    offsets: tuple[int, ...]

    def read(self, index: int, nbytes: int, table: Table) -> memoryview:
        """Returns the bytes of an entry.

        Args:
            index: entry >= 1.
            nbytes: number of bytes that the tensor needs.
            table: the tensor, for messages.
        """
        if index >= len(self.offsets):
            table.fail(f"data {index} is out of range: there are {len(self.offsets)} entries")
        start = self.offsets[index]
        if start + nbytes > len(self.segment):
            table.fail(f"{nbytes} bytes at offset {start} exceed a segment of {len(self.segment)} bytes")
        return self.segment[start : start + nbytes]


class Data:
    """The segments and inline data of a file.

    Args:
        layout: the parts of the file.
        program: the root table.

    Attributes:
        segments: bytes of each segment.
        offsets: start of each segment, in bytes from the start of the file.
        uses: descriptions of the users of each segment so far.
    """

    def __init__(self, layout: Layout, program: Table) -> None:
        self.segments: list[memoryview] = []
        self.offsets: list[int] = []
        for table in program.children("Segments"):
            self.offsets.append(layout.segment_base + table.scalar("Offset"))
            self.segments.append(slice_segment(layout, table))
        self.uses: list[str] = [""] * len(self.segments)
        self._inline_blobs = [table.blob("Data") for table in program.children("BackendDelegateData")]
        self._inline_constants = [table.blob("Storage") for table in program.children("ConstantBuffer")]
        constants = program.child("ConstantSegment")
        self._constants = self._read_offsets(constants, "constants") if constants is not None else None
        self._mutable = [
            self._read_offsets(table, "mutable data") for table in program.children("MutableDataSegments")
        ]
        self.named: dict[str, int] = {}
        for table in program.children("NamedData"):
            index = table.scalar("SegmentIndex")
            self.segment(index, table, "named data")
            self.named[table.text("Key")] = index

    def segment(self, index: int, table: Table, use: str) -> memoryview:
        """Returns the bytes of a segment, and records its use."""
        if index >= len(self.segments):
            table.fail(f"segment {index} is out of range: there are {len(self.segments)}")
        if use not in self.uses[index]:
            self.uses[index] = f"{self.uses[index]}, {use}" if self.uses[index] else use
        return self.segments[index]

    def constant(self, index: int, nbytes: int, table: Table) -> memoryview:
        """Returns the bytes of a constant tensor, which older files store inside the FlatBuffer."""
        if self._constants is not None and self._constants.offsets:
            return self._constants.read(index, nbytes, table)
        if index >= len(self._inline_constants):
            table.fail(f"constant {index} is out of range: there are {len(self._inline_constants)}")
        storage = self._inline_constants[index]
        if nbytes > len(storage):
            table.fail(f"the tensor needs {nbytes} bytes; constant {index} has {len(storage)}")
        return storage[:nbytes]

    def initial_state(self, group: int, index: int, nbytes: int, table: Table) -> memoryview:
        """Returns the initial bytes of a mutable tensor, from one of the groups of mutable data."""
        if group >= len(self._mutable):
            table.fail(f"segment {group} of mutable data is out of range: there are {len(self._mutable)}")
        return self._mutable[group].read(index, nbytes, table)

    def blob(self, reference: Table) -> tuple[memoryview, int | None]:
        """Returns the bytes of a BackendDelegateDataReference, and their segment if any."""
        index = reference.scalar("Index")
        location = reference.scalar("Location")
        if location == DataLocation.SEGMENT:
            return self.segment(index, reference, "delegate"), index
        if location != DataLocation.INLINE:
            reference.fail(f"unknown location {location}")
        if index >= len(self._inline_blobs):
            reference.fail(f"inline data {index} is out of range: there are {len(self._inline_blobs)}")
        return self._inline_blobs[index], None

    def _read_offsets(self, table: Table, use: str) -> Offsets:
        offsets: tuple[int, ...] = table.array("Offsets")
        if len(offsets) <= 1:  # only the entry for "no data": the segment may be missing
            return Offsets(memoryview(b""), offsets)
        return Offsets(self.segment(table.scalar("SegmentIndex"), table, use), offsets)
