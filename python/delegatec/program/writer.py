# SPDX-License-Identifier: Apache-2.0
"""Writes a .pte: the FlatBuffer with its extended header, then the segments, streamed."""

from __future__ import annotations

import struct
from typing import BinaryIO, Final

from delegatec.program.emitted import EmittedProgram
from delegatec.program.layout import SEGMENT_ALIGNMENT, align, lay_out
from delegatec.program.serialize import serialize

# The extended header stands between the file identifier and the rest of the FlatBuffer.
# Source: runtime/executor of ExecuTorch 1.4.1, "eh00".
_HEADER: Final = struct.Struct("<4sIQQQ")
_HEADER_MAGIC: Final = b"eh00"
_ROOT_AND_IDENTIFIER: Final = 8


def write_program(program: EmittedProgram, file: BinaryIO) -> None:
    """Writes a program file. The bytes of constants and delegates are not copied on their way.

    Args:
        program: what to write.
        file: open for writing in binary, at its beginning.
    """
    layout = lay_out(program)
    flatbuffer = serialize(program, layout)
    if not any(size for _, size in layout.segments):
        file.write(flatbuffer)
        return
    # the header moves everything behind it, and alignment in the buffer must stay
    shift = align(_HEADER.size, 16)
    root = struct.unpack_from("<I", flatbuffer)[0] + shift
    program_size = len(flatbuffer) + shift
    base = align(program_size, SEGMENT_ALIGNMENT)
    end = sum(layout.segments[-1])
    file.write(struct.pack("<I", root) + flatbuffer[4:_ROOT_AND_IDENTIFIER])
    file.write(_HEADER.pack(_HEADER_MAGIC, _HEADER.size, program_size, base, end).ljust(shift, b"\0"))
    file.write(memoryview(flatbuffer)[_ROOT_AND_IDENTIFIER:])
    position = program_size
    for (start, _), parts in zip(layout.segments, layout.parts, strict=True):
        for offset, data in parts:
            target = base + start + offset
            file.write(b"\0" * (target - position))
            file.write(data)
            position = target + len(data)
