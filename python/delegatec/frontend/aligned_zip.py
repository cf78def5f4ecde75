# SPDX-License-Identifier: Apache-2.0
"""Writer of zip files of stored, aligned members without metadata.

Alignment lets a reader map a member instead of reading it. As in torch, members are aligned by padding their
"extra" field (PKWARE APPNOTE 4.5: 16-bit id, 16-bit size, data).
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Final

ALIGNMENT: Final = 64
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_PADDING_ID: Final = 0x4246
_ZIP64_EXTRA_BYTES: Final = 20


class AlignedZipWriter:
    """Writes members one after another; the bytes depend only on their names and contents."""

    def __init__(self, file: IO[bytes], root: str) -> None:
        """Starts an archive.

        Args:
            file: a seekable binary file, at position 0.
            root: the directory that contains all members.
        """
        self._file = file
        self._root = root
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def __enter__(self) -> AlignedZipWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def write(self, name: str, chunks: Iterable[bytes | memoryview], size: int) -> None:
        """Appends a member.

        Args:
            name: path below the root directory.
            chunks: the content, in chunks that are written in order.
            size: total number of bytes.
        """
        info = zipfile.ZipInfo(f"{self._root}/{name}", _EPOCH)
        info.create_system = 3
        info.external_attr = 0o644 << 16
        info.file_size = size
        # zipfile itself puts the zip64 extra field before ours, under the same condition.
        zip64 = size * 1.05 > zipfile.ZIP64_LIMIT
        header = _LOCAL_HEADER.size + len(info.filename.encode()) + (_ZIP64_EXTRA_BYTES if zip64 else 0)
        padding = -(self._file.tell() + header + 4) % ALIGNMENT
        info.extra = struct.pack("<2H", _PADDING_ID, padding) + bytes(padding)
        with self._zip.open(info, "w") as member:
            for chunk in chunks:
                member.write(chunk)
