# SPDX-License-Identifier: Apache-2.0
"""Recognition of files of another kind than the user expects."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 32
# Offset, bytes there, the kind of file.
_KINDS: Final = (
    (4, b"ET12", "a .pte program"),
    (4, b"FT01", "a .ptd data file"),
    (0, b"PK\x03\x04", "a zip file, such as a .pt2"),
    (0, b"version https://git-lfs", "a Git LFS pointer: run git lfs pull"),
    (0, b"<", "a web page"),
    (0, b"\x80\x02", "a pickle"),
    (8, b'{"', "a .safetensors file"),
)


def kind_of_file(head: bytes) -> str:
    """Returns the kind of a file, such as "it is a .pte program".

    Args:
        head: its first `HEAD_BYTES` bytes.
    """
    if not head:
        return "it is empty"
    kinds = (kind for offset, magic, kind in _KINDS if head[offset : offset + len(magic)] == magic)
    return f"it is {next(kinds, 'in an unknown format')}"
