# SPDX-License-Identifier: Apache-2.0
"""Parts of a `.pte` file with their hashes."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from delegatec.program.reader.model import Program
from delegatec.report.manifest import FileInfo, FilePart

_CHUNK: Final = 1 << 20


def file_info(program: Program) -> FileInfo:
    """Returns the sizes of a program file and its parts, without hashes."""
    parts = [FilePart("program", 0, program.flatbuffer_bytes, "")]
    parts += [
        FilePart(segment.use or "unused", segment.offset, len(segment.data), "")
        for segment in program.segments
    ]
    return FileInfo(program.file_bytes, "", tuple(parts))


def with_hashes(info: FileInfo, pte: Path | str) -> FileInfo:
    """Returns the sizes and hashes of a program file, which is read twice."""
    with open(pte, "rb") as file:
        whole = hashlib.file_digest(file, "sha256").hexdigest()
        parts = [replace(part, sha256=_hash(file, part.offset, part.bytes)) for part in info.parts]
    return replace(info, sha256=whole, parts=tuple(parts))


def _hash(file: BinaryIO, offset: int, size: int) -> str:
    digest = hashlib.sha256()
    file.seek(offset)
    while size > 0 and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()
