# SPDX-License-Identifier: Apache-2.0
"""The blob of an MPS delegate: a header, a FlatBuffer, and the constants.

    bytes 0 to 4     zero
    bytes 4 to 8     "MP00"
    bytes 8 to 16    offset of the constant segment from the start of the blob, little-endian
    bytes 16 to 24   size of the constant segment
    bytes 24 to ..   the FlatBuffer (schemas/mps_graph.fbs), padded so that the segment is at a multiple of 16
    then             the constants, each at its `segment_offset`, padded to a multiple of 16

Read off the runtime's MPSDelegateHeader and MPSGraphBuilder (ExecuTorch 1.4.1).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import flatbuffers
from delegatec_schemas import mps_graph as schema

from delegatec.diagnostics import DelegatecError, Diagnostic

MAGIC: Final = b"MP00"
HEADER: Final = struct.Struct("<4x4sQQ")
ALIGNMENT: Final = 16

Part = bytes | memoryview


@dataclass(frozen=True)
class Blob:
    """A blob that was read.

    Attributes:
        graph: its graph, unpacked.
        constants: the constant segment.
    """

    graph: schema.GraphT
    constants: memoryview

    def constant(self, value: schema.ValueT) -> memoryview:
        """Bytes of a constant value."""
        return self.constants[value.segmentOffset : value.segmentOffset + value.constantBufferSize]


def write_blob(graph: schema.GraphT, constants: Sequence[Part]) -> list[Part]:
    """The parts of a blob. Constants are passed through, not copied.

    Args:
        graph: the graph; its constants' `segmentOffset`s fit `constants`.
        constants: parts of the constant segment.
    """
    builder = flatbuffers.Builder(1024)
    builder.Finish(graph.Pack(builder), file_identifier=MAGIC)
    flatbuffer = bytes(builder.Output())
    end = HEADER.size + len(flatbuffer)
    size = sum(len(part) for part in constants)
    tail = _padding(size)
    header = HEADER.pack(MAGIC, end + _padding(end), size + tail)
    return [header + flatbuffer + bytes(_padding(end)), *constants, *([bytes(tail)] if tail else [])]


def _padding(size: int) -> int:
    return -size % ALIGNMENT


def read_blob(data: memoryview) -> Blob:
    """Reads a blob and checks that everything in it is in bounds.

    Args:
        data: the whole blob.

    Raises:
        DelegatecError: DC407, with what is wrong.
    """
    try:
        return _read(data.cast("B"))
    except (struct.error, IndexError, ValueError, TypeError, UnicodeDecodeError) as error:
        raise _damaged(f"its FlatBuffer points out of bounds ({error})") from error


def _read(data: memoryview) -> Blob:
    if len(data) < HEADER.size:
        raise _damaged(f"it has {len(data)} bytes, fewer than its header")
    magic, offset, size = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _damaged(f"its magic is {magic!r}, not {MAGIC!r}")
    if offset < HEADER.size or offset + size > len(data):
        raise _damaged(
            f"its constant segment [{offset}, {offset + size}) is outside of its {len(data)} bytes"
        )
    flatbuffer = data[HEADER.size : offset]
    if bytes(flatbuffer[4:8]) != MAGIC:
        raise _damaged(f"its FlatBuffer's identifier is {bytes(flatbuffer[4:8])!r}, not {MAGIC!r}")
    graph = schema.GraphT.InitFromPackedBuf(flatbuffer, 0)
    blob = Blob(graph, data[offset : offset + size])
    _check(blob)
    return blob


def _check(blob: Blob) -> None:
    graph = blob.graph
    graph.mpsNodes = graph.mpsNodes or []
    graph.mpsValues = graph.mpsValues or []
    count = len(graph.mpsValues)
    for name in ("inputIds", "outputIds", "constantIds"):
        ids = [int(i) for i in (() if getattr(graph, name) is None else getattr(graph, name))]
        setattr(graph, name, ids)
        for id in ids:
            if not 0 <= id < count:
                raise _damaged(f"{name} has id {id}, and there are {count} values")
    for index, node in enumerate(graph.mpsNodes):
        if node.mpsnodeUnion is None:
            raise _damaged(f"node {index} has no operation of the format (type {node.mpsnodeUnionType})")
        for id in value_ids(node.mpsnodeUnion):
            if not -1 <= id < count:
                raise _damaged(f"node {index} has id {id}, and there are {count} values")
    for id in graph.constantIds:
        value = graph.mpsValues[id]
        end = value.segmentOffset + value.constantBufferSize
        if value.constantBufferSize == 0 or end > len(blob.constants):
            raise _damaged(
                f"constant {id} is [{value.segmentOffset}, {end}) of a segment of {len(blob.constants)} bytes"
            )


def value_ids(operation: object) -> list[int]:
    """All value ids in an unpacked operation, operands and results, in the order of its fields."""
    ids: list[int] = []
    for name, field in vars(operation).items():
        if name in ("inputIds", "outputIds", "indicesId"):
            ids += [int(item) for item in (() if field is None else field)]
        elif name.endswith("Id"):
            ids.append(int(field))
    return ids


def _damaged(message: str) -> DelegatecError:
    return DelegatecError([Diagnostic(code="DC407", message=f"not a blob of the MPS delegate: {message}")])
