# SPDX-License-Identifier: Apache-2.0
"""The blob of an MPS delegate: a header, a FlatBuffer, and the constants.

    bytes 0 to 4     zero
    bytes 4 to 8     "MP00"
    bytes 8 to 16    offset of the constant segment from the start of the blob, little-endian
    bytes 16 to 24   size of the constant segment
    bytes 24 to ..   the FlatBuffer (schemas/mps_graph.fbs), padded so that the segment is at a multiple of 16
    then             the constants, each at its `segment_offset`, padded to a multiple of 16

Older blobs are a FlatBuffer alone, with constants next to their types. They are supported here, but not by
the runtime of ExecuTorch 1.4, which reads their first bytes as a header.

Source: the runtime's MPSDelegateHeader and MPSGraphBuilder (ExecuTorch 1.4.1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delegatec_schemas import mps_graph as schema

from delegatec.backends.common.graph_format import GraphFormat
from delegatec.backends.mps.checks import fill_lists, inline_bytes, problems_of
from delegatec.delegation import Part

MAGIC: Final = b"MP00"
HEADER: Final = struct.Struct("<4x4sQQ")
ALIGNMENT: Final = 16
_FORMAT: Final = GraphFormat("MPSBackend", schema.GraphT, MAGIC, fill_lists, problems_of)


@dataclass(frozen=True)
class Blob:
    """An unpacked blob.

    Attributes:
        graph: its graph, unpacked.
        constants: the constant segment.
    """

    graph: schema.GraphT
    constants: memoryview

    def constant(self, value: schema.ValueT) -> memoryview:
        """Returns the bytes of a constant value; not copied."""
        inline = inline_bytes(value)
        if inline is not None:
            return inline
        return self.constants[value.segmentOffset : value.segmentOffset + value.constantBufferSize]


def write_blob(graph: schema.GraphT, constants: Sequence[Part], *, checked: bool = True) -> list[Part]:
    """Returns the parts of a blob. Constants are not copied.

    Args:
        graph: the graph; its constants' `segmentOffset`s fit `constants`.
        constants: parts of the constant segment.
        checked: whether `read_blob` must accept it.

    Raises:
        DelegatecError: DC407, with the problems for which `read_blob` would refuse it.
    """
    size = sum(len(part) for part in constants)
    tail = _padding(size)
    if checked:
        _FORMAT.check_graph(graph, size + tail)
    flatbuffer = _FORMAT.pack(graph)
    end = HEADER.size + len(flatbuffer)
    header = HEADER.pack(MAGIC, end + _padding(end), size + tail)
    return [header + flatbuffer + bytes(_padding(end)), *constants, *([bytes(tail)] if tail else [])]


def _padding(size: int) -> int:
    return -size % ALIGNMENT


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks that everything in it is in bounds (`checks.problems_of`). Nothing is copied.

    Args:
        data: the blob.

    Raises:
        DelegatecError: DC407, with its problems.
    """
    data = data.cast("B")
    flatbuffer, constants = _parts(data)
    graph = _FORMAT.unpack(flatbuffer)
    _FORMAT.check_graph(graph, len(constants))
    return Blob(graph, constants)


def _parts(data: memoryview) -> tuple[memoryview, memoryview]:
    """Returns the FlatBuffer and the constants."""
    if len(data) < HEADER.size:
        raise _FORMAT.damaged(f"it has {len(data)} bytes, fewer than its header")
    magic, offset, size = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _FORMAT.damaged(f"its magic is {magic!r}, not {MAGIC!r}")
    if any(data[:4]):  # a FlatBuffer begins with the offset of its root
        return data, data[:0]
    problems = []
    if offset < HEADER.size or offset + size > len(data):
        problems.append(
            f"its constant segment [{offset}, {offset + size}) is outside of its {len(data)} bytes"
        )
    if offset % ALIGNMENT:
        problems.append(f"its constant segment begins at {offset}, which is not a multiple of {ALIGNMENT}")
    _FORMAT.check(problems)
    return data[HEADER.size : offset], data[offset : offset + size]
