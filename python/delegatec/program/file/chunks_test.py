# SPDX-License-Identifier: Apache-2.0
"""Tests of chunks."""

from __future__ import annotations

import errno
import gzip
import io
import os
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

import pytest

from delegatec.files import MappedFile
from delegatec.program.file.chunks import CHUNK, ChunkWriter

# No two chunks are alike, at any offset.
CONTENT = b"".join(number.to_bytes(4, "little") for number in range(CHUNK))


@pytest.fixture
def source(tmp_path: Path) -> MappedFile:
    (tmp_path / "source").write_bytes(CONTENT)
    with (tmp_path / "source").open("rb") as file:
        return MappedFile(file)


def runs(source: MappedFile) -> list[bytes | memoryview]:
    view = source.view
    return [
        b"head",
        view[3 : 2 * CHUNK],
        view[CHUNK : 2 * CHUNK],
        b"",
        view[64 : 64 + CHUNK - 1],
        bytes(view[1 : CHUNK + 2]),
        view[5:],
    ]


@pytest.mark.parametrize("named", [False, True])
def test_the_bytes_are_unchanged(source: MappedFile, tmp_path: Path, named: bool) -> None:
    parts = runs(source)
    expected = b"".join(parts)
    for file in (io.BytesIO(), (tmp_path / "out").open("wb"), (tmp_path / "raw").open("wb", buffering=0)):
        writer = ChunkWriter(cast(BinaryIO, file), len(expected), [source] if named else [])
        for part in parts:
            writer.write(part)
        if isinstance(file, io.BytesIO):
            assert file.getvalue() == expected
        file.close()
    assert (tmp_path / "out").read_bytes() == (tmp_path / "raw").read_bytes() == expected


def test_only_long_mapped_ranges_are_read_from_the_file(
    source: MappedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    read = MappedFile.read_into

    def noting(self: MappedFile, buffer: memoryview, offset: int) -> None:
        asked.append((offset, len(buffer)))
        read(self, buffer, offset)

    monkeypatch.setattr(MappedFile, "read_into", noting)
    writer = ChunkWriter(io.BytesIO(), 0, [source])
    writer.write(b"head")
    writer.write(source.view[3 : 2 * CHUNK])
    writer.write(source.view[64 : 64 + CHUNK - 1])
    writer.write(bytes(source.view[: 2 * CHUNK]))
    writer.write(source.view)
    # blocks end at multiples of four chunks in the file that is written
    end = 4 * CHUNK - (CHUNK - 1) - 2 * CHUNK - 1 - 2 * CHUNK + 4 * CHUNK
    assert asked == [(3, 2 * CHUNK - 3), (0, end), (end, len(CONTENT) - end)]


def test_a_file_gets_its_blocks_at_once(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        ChunkWriter(file, 2 * CHUNK)
        assert os.fstat(file.fileno()).st_size == 2 * CHUNK


def test_a_file_system_that_reserves_nothing_will_do(
    source: MappedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    with (tmp_path / "out").open("wb") as file:
        ChunkWriter(file, len(CONTENT), [source]).write(source.view)
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_a_full_disk_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.ENOSPC))
    with (tmp_path / "out").open("wb") as file, pytest.raises(OSError, match="No space"):
        ChunkWriter(file, CHUNK)


def test_other_kinds_of_files_are_not_reserved(source: MappedFile, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "out.gz", "wb") as file:
        ChunkWriter(cast(BinaryIO, file), len(CONTENT), [source]).write(source.view)
    assert (tmp_path / "out.gz").stat().st_size < len(CONTENT)
    with gzip.open(tmp_path / "out.gz") as file:
        assert file.read() == CONTENT


def test_a_pipe_will_do() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as file:
        # The kernel does not reserve blocks for a pipe; the bytes are written anyway.
        ChunkWriter(file, CHUNK).write(b"bytes")
    with os.fdopen(reader, "rb") as file:
        assert file.read() == b"bytes"


def failing(number: int) -> object:
    def fail(*_: int) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail
