# SPDX-License-Identifier: Apache-2.0
"""Writer of `.ptd` files: named tensors for programs with external weights.

Format: extension/flat_tensor of ExecuTorch 1.4.1. Each run of bytes has its own segment, so that the runtime
loads only the data that a program needs.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Final

import flatbuffers
import torch
from delegatec_schemas import flat_tensor as schema

from delegatec.delegation.protocol.parts import tensor_bytes
from delegatec.diagnostics.arguments import check_items
from delegatec.files import MappedFile
from delegatec.program.alignment import align
from delegatec.program.file.flatbuffer import ints, vector
from delegatec.program.file.segments import Segments, check_target, write_file
from delegatec.program.options import ProgramOptions
from delegatec.program.scalar_type import SCALAR_TYPES

FILE_IDENTIFIER: Final = b"FT01"
_VERSION: Final = 0
# Magic, header length, offset of the rest of the FlatBuffer, its size, segment base, size of all segments.
_HEADER: Final = struct.Struct("<4sIQQQQ")
_HEADER_MAGIC: Final = b"FH01"
_HEADER_BYTES: Final = align(_HEADER.size, 16)
DEFAULT_ALIGNMENT: Final = 128


def write_flat_tensors(
    tensors: Mapping[str, torch.Tensor],
    file: BinaryIO,
    *,
    alignment: int = DEFAULT_ALIGNMENT,
    sources: Sequence[MappedFile] = (),
) -> None:
    """Writes a data file, streaming the bytes of tensors.

    Args:
        tensors: name -> tensor on CPU, dense and row-major. Tensors in the same memory are stored once.
        file: a binary file, open for writing, at its beginning.
        alignment: alignment in bytes of each tensor in the file; a power of two.
        sources: files that tensors may be mapped from, such as the `.pt2`, for faster copying.

    Raises:
        DelegatecError: DC415 for arguments of wrong types, DC310 for an invalid alignment.
    """
    expected = "a dict of tensors, as weights_of(methods)"
    check_items("write_flat_tensors", "tensors", tensors, Mapping, torch.Tensor, expected)
    check_target("write_flat_tensors", file, sources)
    ProgramOptions(segment_alignment=alignment)
    segments = Segments(alignment)
    by_region: dict[tuple[int, int], int] = {}
    b = flatbuffers.Builder(16 * 1024)
    entries = []
    for name, tensor in tensors.items():
        data = tensor_bytes(tensor)
        region = (tensor.data_ptr(), len(data))
        if region not in by_region:
            by_region[region] = segments.add([(0, data)])
        entries.append(_entry(b, name, by_region[region], tensor))
    named = vector(b, entries)
    spans = vector(b, [_segment(b, offset, size) for offset, size in segments.spans])
    schema.FlatTensorStart(b)
    schema.FlatTensorAddVersion(b, _VERSION)
    schema.FlatTensorAddSegments(b, spans)
    schema.FlatTensorAddNamedData(b, named)
    b.Finish(schema.FlatTensorEnd(b), file_identifier=FILE_IDENTIFIER)
    flatbuffer = bytes(b.Output())

    def header(base: int, size: int) -> bytes:
        fields = (_HEADER_MAGIC, _HEADER.size, _HEADER_BYTES, len(flatbuffer), base, size)
        return _HEADER.pack(*fields).ljust(_HEADER_BYTES, b"\0")

    write_file(file, flatbuffer, segments, header, sources)


def _entry(b: Any, name: str, segment: int, tensor: torch.Tensor) -> int:
    key = b.CreateString(name)
    sizes = ints(b, tuple(tensor.shape))
    dim_order = b.CreateByteVector(bytes(range(tensor.dim())))
    schema.TensorLayoutStart(b)
    schema.TensorLayoutAddScalarType(b, SCALAR_TYPES[tensor.dtype])
    schema.TensorLayoutAddSizes(b, sizes)
    schema.TensorLayoutAddDimOrder(b, dim_order)
    layout = schema.TensorLayoutEnd(b)
    schema.NamedDataStart(b)
    schema.NamedDataAddKey(b, key)
    schema.NamedDataAddSegmentIndex(b, segment)
    schema.NamedDataAddTensorLayout(b, layout)
    return int(schema.NamedDataEnd(b))


def _segment(b: Any, offset: int, size: int) -> int:
    schema.DataSegmentStart(b)
    schema.DataSegmentAddOffset(b, offset)
    schema.DataSegmentAddSize(b, size)
    return int(schema.DataSegmentEnd(b))
