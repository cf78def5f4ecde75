# SPDX-License-Identifier: Apache-2.0
"""Writer of `.pte` files: the FlatBuffer with its extended header, then the segments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import BinaryIO, Final

from delegatec.diagnostics.arguments import wrong_argument
from delegatec.files import MappedFile
from delegatec.program.alignment import align
from delegatec.program.emitted import EmittedProgram
from delegatec.program.file.layout import lay_out
from delegatec.program.file.segments import check_target, write_file
from delegatec.program.file.serialize import inline_alignment, serialize

# The extended header is between the file identifier and the rest of the FlatBuffer. Source:
# runtime/executor of ExecuTorch 1.4.1, "eh00".
_HEADER: Final = struct.Struct("<4sIQQQ")
_HEADER_MAGIC: Final = b"eh00"


def write_program(
    program: EmittedProgram, file: BinaryIO, sources: Sequence[MappedFile] = ()
) -> dict[tuple[int, int], int]:
    """Writes a program file, streaming the bytes of constants and delegates.

    Args:
        program: the program.
        file: a binary file, open for writing, at its beginning.
        sources: files that constants may be mapped from, such as the `.pt2`, for faster copying.

    Returns:
        (offset, size) -> CRC-32 of the ranges of the file that were copied from sources, for a manifest.

    Raises:
        DelegatecError: DC415 for arguments of wrong types.
    """
    if not isinstance(program, EmittedProgram):
        expected = "an EmittedProgram, as delegatec.lower(...).emitted"
        raise wrong_argument("write_program", "program", program, expected)
    check_target("write_program", file, sources)
    layout = lay_out(program)
    flatbuffer = serialize(program, layout)
    if not any(size for _, size in layout.segments.spans):
        file.write(flatbuffer)
        return {}
    # the header shifts the rest of the buffer, whose alignment must be kept
    shift = align(_HEADER.size, inline_alignment(program, layout))

    def header(base: int, size: int) -> bytes:
        fields = (_HEADER_MAGIC, _HEADER.size, len(flatbuffer) + shift, base, size)
        return _HEADER.pack(*fields).ljust(shift, b"\0")

    return write_file(file, flatbuffer, layout.segments, header, sources)
