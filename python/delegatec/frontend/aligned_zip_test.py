# SPDX-License-Identifier: Apache-2.0
"""Tests of aligned_zip."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegatec.frontend.aligned_zip import ALIGNMENT, AlignedZipWriter, MappedZip

MEMBERS = st.dictionaries(
    st.text("abcdefgh/_.é", min_size=1, max_size=90), st.binary(max_size=300), max_size=8
)


def written(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with AlignedZipWriter(file, "root") as archive:
        for name, content in members.items():
            archive.write(name, [content[:5], memoryview(content)[5:]], len(content))
    return file.getvalue()


@given(MEMBERS)
def test_every_member_is_aligned_and_reads_back(members: dict[str, bytes]) -> None:
    content = written(members)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        for info in archive.infolist():
            extra = int.from_bytes(content[info.header_offset + 28 : info.header_offset + 30], "little")
            start = info.header_offset + 30 + len(info.filename.encode()) + extra
            assert start % ALIGNMENT == 0
            assert content[start : start + info.file_size] == archive.read(info)
        assert [info.filename for info in archive.infolist()] == [f"root/{name}" for name in members]


@given(MEMBERS)
def test_bytes_depend_on_names_and_contents_only(members: dict[str, bytes]) -> None:
    assert written(members) == written(members)


def test_members_are_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    path.write_bytes(written({"one": b"first", "folder/two": b"second", "none": b""}))
    archive = MappedZip(str(path))
    assert archive.names() == ["one", "folder/two", "none"]
    assert bytes(archive.view("folder/two")) == b"second"
    assert archive.view("one").readonly
    assert archive.view("none").nbytes == 0
    with pytest.raises(KeyError):
        archive.view("three")


def test_compressed_member_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("root/one", b"1" * 100)
    with pytest.raises(zipfile.BadZipFile, match="compressed"):
        MappedZip(str(path)).view("one")


def test_local_header_that_lies_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    content = bytearray(written({"one": b"first"}))
    content[28:30] = b"\xff\xff"
    path.write_bytes(content)
    with pytest.raises(zipfile.BadZipFile, match="end of the file"):
        MappedZip(str(path)).view("one")
