# SPDX-License-Identifier: Apache-2.0
"""Tests of aligned_zip."""

from __future__ import annotations

import io
import zipfile

from hypothesis import given
from hypothesis import strategies as st

from delegatec.frontend.aligned_zip import ALIGNMENT, AlignedZipWriter

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
