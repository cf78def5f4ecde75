# SPDX-License-Identifier: Apache-2.0
"""Parts of a `.pte` file with their hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from delegatec.program.reader.model import Program
from delegatec.report.manifest import FileInfo, FilePart


def file_info(program: Program, pte: Path | str) -> FileInfo:
    """Returns sizes and hashes of a program file.

    Args:
        program: the program read from the file.
        pte: the file.
    """
    with open(pte, "rb") as file:
        whole = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        head = hashlib.sha256(file.read(program.flatbuffer_bytes)).hexdigest()
    parts = [FilePart("program", 0, program.flatbuffer_bytes, head)]
    for segment in program.segments:
        digest = hashlib.sha256(segment.data).hexdigest()
        parts.append(FilePart(segment.use or "unused", segment.offset, len(segment.data), digest))
    return FileInfo(program.file_bytes, whole, tuple(parts))
