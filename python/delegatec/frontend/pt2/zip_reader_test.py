# SPDX-License-Identifier: Apache-2.0
"""Tests of zip_reader: members are mapped, and contradictions of headers are found."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from delegatec.frontend.aligned_zip import AlignedZipWriter
from delegatec.frontend.pt2.fields import MalformedError
from delegatec.frontend.pt2.zip_reader import MappedZip

MEMBERS = {"one": b"first", "folder/two": b"second", "none": b""}


def written(members: dict[str, bytes]) -> bytearray:
    file = io.BytesIO()
    with AlignedZipWriter(file, "root") as archive:
        for name, content in members.items():
            archive.write(name, [content], len(content))
    return bytearray(file.getvalue())


def mapped(folder: Path, content: bytes | bytearray) -> MappedZip:
    path = folder / "a.zip"
    path.write_bytes(content)
    return MappedZip(str(path))


def test_members_are_mapped(tmp_path: Path) -> None:
    archive = mapped(tmp_path, written(MEMBERS))
    assert archive.names() == ["one", "folder/two", "none"]
    assert {name: bytes(archive.view(name)) for name in archive.names()} == MEMBERS
    assert archive.view("one").readonly
    with pytest.raises(MalformedError, match="missing"):
        archive.view("three")


def local(content: bytearray, name: str) -> int:
    """Returns the offset of a local header."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.getinfo(f"root/{name}").header_offset


def central(content: bytearray, name: str) -> int:
    """Returns the offset of an entry of the directory."""
    at = content.rfind(f"root/{name}".encode())
    return at - 46


def flip(content: bytearray) -> None:
    content[content.index(b"second")] ^= 1


def wrong_checksum(content: bytearray) -> None:
    for at in (local(content, "one") + 14, central(content, "one") + 16):
        content[at] ^= 1


def encrypted(content: bytearray) -> None:
    content[central(content, "one") + 8] |= 1


def encrypted_local(content: bytearray) -> None:
    content[local(content, "one") + 6] |= 1


def other_member(content: bytearray) -> None:
    struct.pack_into("<I", content, central(content, "one") + 42, local(content, "folder/two"))


def other_name(content: bytearray) -> None:
    content[local(content, "one") + 30 + 5] ^= 1


def other_size(content: bytearray) -> None:
    struct.pack_into("<I", content, local(content, "one") + 22, 4)


def too_long(content: bytearray) -> None:
    struct.pack_into("<2I", content, central(content, "one") + 20, 10**6, 10**6)
    struct.pack_into("<2I", content, local(content, "one") + 18, 10**6, 10**6)


def overlapping(content: bytearray) -> None:
    for at in (central(content, "one") + 20, local(content, "one") + 18):
        struct.pack_into("<2I", content, at, 100, 100)


def far_extra(content: bytearray) -> None:
    struct.pack_into("<H", content, local(content, "one") + 28, 0xFFFF)


def no_header(content: bytearray) -> None:
    content[local(content, "one")] ^= 1


def truncated(content: bytearray) -> None:
    del content[-1:]


def empty(content: bytearray) -> None:
    content.clear()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (flip, "folder/two is damaged: wrong checksum"),
        (wrong_checksum, "one is damaged: wrong checksum"),
        (encrypted, "one is encrypted"),
        (encrypted_local, "one is encrypted"),
        (other_member, "one has a local header that contradicts"),
        (other_name, "one has a local header that contradicts"),
        (other_size, "one has a local header that contradicts"),
        (too_long, "one extends past the end"),
        (overlapping, "overlaps another member"),
        (far_extra, "one extends past the end"),
        (no_header, "one has no local header"),
        (truncated, "not a zip file"),
        (empty, "not a zip file"),
    ],
)
def test_contradictions_are_rejected(
    tmp_path: Path, change: Callable[[bytearray], None], message: str
) -> None:
    content = written(MEMBERS)
    change(content)
    with pytest.raises(MalformedError, match=message):
        archive = mapped(tmp_path, content)
        for name in archive.names():
            archive.view(name)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["root/one", "root/one"], "one occurs twice"),
        (["root/one", "other/two"], "not in the root directory"),
        ([], "empty"),
    ],
)
def test_names_are_unique_and_in_one_directory(tmp_path: Path, names: list[str], message: str) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, b"content")
    with pytest.raises(MalformedError, match=message):
        mapped(tmp_path, file.getvalue())


def test_compressed_member_is_rejected(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("root/one", b"1" * 100)
    with pytest.raises(MalformedError, match="compressed"):
        mapped(tmp_path, file.getvalue())
