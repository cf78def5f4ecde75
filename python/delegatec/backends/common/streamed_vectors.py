# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers whose large byte vectors are written after everything else, and need not be in memory."""

from __future__ import annotations

import struct
from typing import Any, Final

import flatbuffers
import numpy as np

from delegatec.delegation.protocol.parts import Part

_ALIGNMENT: Final = 16
_LENGTH: Final = struct.Struct("<I")


Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class _Builder(flatbuffers.Builder):  # type: ignore[misc]
    """Records which references point to streamed vectors, instead of copying the vectors."""

    def __init__(self, parts: dict[int, Part]) -> None:
        super().__init__(1024)
        self.streamed: dict[int, Part] = {}
        self.references: list[tuple[int, int]] = []
        self._parts = parts

    def CreateNumpyVector(self, x: Any) -> int:  # noqa: N802
        # An empty vector is its placeholder: each has a unique offset, by which its reference is recognized.
        offset: int = super().CreateNumpyVector(x[:0] if id(x) in self._parts else x)
        if id(x) in self._parts:
            self.streamed[offset] = self._parts[id(x)]
        return offset

    def PrependUOffsetTRelativeSlot(self, o: int, x: int, d: int) -> None:  # noqa: N802
        super().PrependUOffsetTRelativeSlot(o, x, d)
        if x in self.streamed:
            self.references.append((self.Offset(), x))


class StreamedVectors:
    """The streamed vectors of one FlatBuffer."""

    def __init__(self) -> None:
        self._arrays: list[Bytes] = []
        self._parts: dict[int, Part] = {}

    def add(self, part: Part) -> Bytes:
        """Returns a new array, which is the value of a field of unpacked tables that holds these bytes.

        It has the same number of elements, but not their values, and takes no memory.
        """
        array = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), [len(part)], [0], writeable=False)
        self._arrays.append(array)
        self._parts[id(array)] = part
        return array

    def pack(self, root: Any, identifier: bytes) -> list[Part]:
        """Returns the parts of a FlatBuffer: its tables, then for each vector its length and its bytes.

        Bytes are aligned to 16. Equal vectors are not merged.

        Args:
            root: an object of the generated object API.
            identifier: of the file.
        """
        builder = _Builder(self._parts)
        builder.Finish(root.Pack(builder), file_identifier=identifier)
        tables = bytearray(builder.Output())
        end = len(tables)
        parts: list[Part] = []
        for reference, vector in builder.references:
            position = len(tables) - reference
            start = end + -(end + _LENGTH.size) % _ALIGNMENT
            _LENGTH.pack_into(tables, position, start - position)
            part = builder.streamed[vector]
            parts += [bytes(start - end) + _LENGTH.pack(len(part)), part]
            end = start + _LENGTH.size + len(part)
        return [bytes(tables), *parts]
