# SPDX-License-Identifier: Apache-2.0
"""Zip files of stored members, mapped: no header is trusted, and every member that is read is checked."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import BinaryIO, Final

from delegatec.files import HEAD_BYTES, MappedFile, check_regular, kind_of_file
from delegatec.frontend.pt2.fields import fail

# PKWARE APPNOTE 4.3.7: signature, version, flags, method, time, date, CRC, sizes, lengths of name and extra.
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_ENCRYPTED: Final = 0x2041  # encrypted, strongly encrypted, encrypted directory
_PATCHED: Final = 0x20
_DESCRIPTOR: Final = 0x8  # checksum and sizes follow the member
_UTF8: Final = 0x800
_IN_EXTRA: Final = 0xFFFFFFFF
# Member of another file of torch -> its kind.
_OTHERS: Final = {"constants.pkl": "a TorchScript file", "data.pkl": "a checkpoint, written by torch.save"}
# Stays in the cache of the CPU between reading and the checksum.
_CHUNK: Final = 1 << 18
# Size of weights that are worth postponing their checksums.
_LARGE: Final = 1 << 16


class MappedZip:
    """A read-only mapping of a zip file of stored members.

    Args:
        path: the file.
        postpone: whether checksums of large weights are left to `check`.

    Attributes:
        file: the mapped file.
    """

    def __init__(self, path: str, postpone: bool = False) -> None:
        """Maps `path`.

        Raises:
            OSError: the file cannot be opened.
            MalformedError: it is not a zip file with one root directory, or headers contradict each other.
        """
        check_regular(path)
        with open(path, "rb") as file:
            infos = _directory(file)
            self.file = MappedFile(file)
        self._members = _members(infos)
        self._view = self.file.view
        self._starts = {name: self._start(name) for name in self._members}
        self._check_overlaps()
        self._checked: set[str] = set()
        self._postpone = postpone
        self._postponed: list[str] = []
        self._buffer = memoryview(bytearray(_CHUNK))

    def names(self) -> list[str]:
        """Returns the members' paths below the root directory, in the order of the archive."""
        return list(self._members)

    def view(self, name: str, weights: bool = False) -> memoryview:
        """Returns the bytes of a member, mapped.

        Args:
            name: its path below the root directory.
            weights: whether wrong bytes can only affect values, so that the checksum may be postponed.

        Raises:
            MalformedError: there is no such member, or its checksum is wrong.
        """
        info = self._members.get(name)
        if info is None:
            fail(f"{name} is missing")
        start = self._starts[name]
        view = self._view[start : start + info.file_size]
        if weights and self._postpone and info.file_size >= _LARGE:
            self._postponed.append(name)
        else:
            self._check(name)
        return view

    def check(self) -> None:
        """Checks postponed checksums; ranges of the file that were copied are not read again.

        Raises:
            MalformedError: a checksum is wrong.
        """
        for name in self._postponed:
            self._check(name)

    def _check(self, name: str) -> None:
        info = self._members[name]
        if name not in self._checked:
            if self._checksum(self._starts[name], info.file_size) != info.CRC:
                fail(f"{name} is damaged: wrong checksum")
            self._checked.add(name)

    def _checksum(self, start: int, size: int) -> int:
        """Returns the checksum of a range of the file, read into a buffer: cheaper than mapping its pages."""
        if (start, size) in self.file.checksums:
            return self.file.checksums[start, size]
        checksum = 0
        for offset in range(start, start + size, _CHUNK):
            chunk = self._buffer[: min(_CHUNK, start + size - offset)]
            self.file.read_into(chunk, offset)
            checksum = zlib.crc32(chunk, checksum)
        return checksum

    def _start(self, name: str) -> int:
        """Returns the offset of a member's content, and checks its local header."""
        info = self._members[name]
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            fail(f"{name} is compressed")
        end = info.header_offset + _LOCAL_HEADER.size
        if info.header_offset < 0 or end > len(self._view):
            fail(f"{name} has no local header")
        magic, _, flags, method, _, _, crc, packed, size, length, extra = _LOCAL_HEADER.unpack_from(
            self._view, info.header_offset
        )
        if magic != b"PK\x03\x04":
            fail(f"{name} has no local header")
        if (info.flag_bits | flags) & (_ENCRYPTED | _PATCHED):
            fail(f"{name} is encrypted")
        encoding = "utf-8" if flags & _UTF8 else "cp437"
        written = bytes(self._view[end : end + length]).decode(encoding, "replace")
        expected = {info.file_size, _IN_EXTRA} | ({0} if flags & _DESCRIPTOR else set())
        checksums = {info.CRC} | ({0} if flags & _DESCRIPTOR else set())
        if (
            written != info.orig_filename
            or method != zipfile.ZIP_STORED
            or not {packed, size} <= expected
            or crc not in checksums
        ):
            fail(f"{name} has a local header that contradicts the directory")
        if end + length + extra + info.file_size > len(self._view):
            fail(f"{name} extends past the end of the file")
        return int(end + length + extra)

    def _check_overlaps(self) -> None:
        end = 0
        for name, start in sorted(self._starts.items(), key=lambda item: (item[1], item[0])):
            info = self._members[name]
            if info.header_offset < end:
                fail(f"{name} overlaps another member")
            end = start + info.file_size


def _directory(file: BinaryIO) -> list[zipfile.ZipInfo]:
    head = file.read(HEAD_BYTES)
    try:
        with zipfile.ZipFile(file) as archive:
            return list(archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError):
        damage = "its directory is missing or damaged"
        fail(f"not a zip file: {damage if head.startswith(b'PK') else kind_of_file(head)}")


def _members(infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Returns the members by their path below the root directory."""
    if not infos:
        fail("the archive is empty")
    root = infos[0].filename.partition("/")[0]
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        folder, _, path = info.filename.partition("/")
        if folder != root or not path:
            fail(f"{info.filename} is not in the root directory {root}")
        if path in found:
            fail(f"{path} occurs twice")
        found[path] = info
    for name, kind in _OTHERS.items():
        if name in found:
            fail(f"not a .pt2: it is {kind}")
    return found
