# SPDX-License-Identifier: Apache-2.0
"""Parts of a `.pte` file with their checksums."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from delegatec.program.file.checksums import checksums
from delegatec.program.reader.model import Program
from delegatec.report.manifest import FileInfo, FilePart


def file_ranges(program: Program) -> list[tuple[str, int, int]]:
    """Returns kind, offset and size of the parts of a program file: the program itself, then its segments."""
    segments = [(each.use or "unused", each.offset, len(each.data)) for each in program.segments]
    return [("program", 0, program.flatbuffer_bytes), *segments]


def file_info(program: Program, pte: Path | str, known: Mapping[tuple[int, int], int]) -> FileInfo:
    """Returns the sizes and checksums of a program file and its parts.

    Args:
        program: the program.
        pte: its file.
        known: (offset, size) -> checksum of ranges of the file.
    """
    ranges = [(offset, size) for _, offset, size in file_ranges(program)]
    found = checksums(pte, ranges, known)
    (whole,) = checksums(pte, [(0, program.file_bytes)], dict(zip(ranges, found, strict=True)))
    parts = [
        FilePart(*part, crc32=crc32_text(checksum))
        for part, checksum in zip(file_ranges(program), found, strict=True)
    ]
    return FileInfo(program.file_bytes, crc32_text(whole), tuple(parts))


def crc32_text(checksum: int) -> str:
    """Returns a checksum as text."""
    return f"{checksum:08x}"
