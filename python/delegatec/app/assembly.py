# SPDX-License-Identifier: Apache-2.0
"""A program inside a binary: assembly that includes its file, which no compiler then reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The alignment is that of segments by default.
_START: Final = """\
#ifdef __APPLE__
#define SYMBOL(name) _##name
.section __TEXT,__const
#else
#define SYMBOL(name) name
.section .rodata
#endif
"""
_FILE: Final = """\
// SHA-256: {digest}
.global SYMBOL({symbol})
.global SYMBOL({symbol}_end)
.balign 128
SYMBOL({symbol}):
.incbin "{path}"
SYMBOL({symbol}_end):
"""
_END: Final = """\
#ifdef __ELF__
.section .note.GNU-stack,"",%progbits
#endif
"""


@dataclass(frozen=True)
class EmbeddedFile:
    """A file of a program.

    Attributes:
        symbol: symbol of its first byte; with `_end`, that of its end.
        path: the file.
        included: its path as the assembler finds it.
    """

    symbol: str
    path: str
    included: str


def assembly(files: Sequence[EmbeddedFile]) -> str:
    """Returns the source, which changes with the contents of the files.

    A build would not assemble it again otherwise: a list of dependencies does not have files of `.incbin`.

    Args:
        files: the files.
    """
    parts = [
        _FILE.format(digest=_digest(each.path), path=each.included, symbol=each.symbol) for each in files
    ]
    return "".join([_START, *parts, _END])


def _digest(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
