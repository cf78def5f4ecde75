# SPDX-License-Identifier: Apache-2.0
"""Output files are complete or unchanged."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from delegatec.files import replacing


def names(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(ValueError), replacing(str(path)) as file:
        file.write(b"half")
        raise ValueError
    assert path.read_bytes() == b"old"
    with replacing(path) as file:
        file.write(b"new")
    assert names(tmp_path) == ["out"] and path.read_bytes() == b"new"


def test_an_error_names_the_path_of_the_user(tmp_path: Path) -> None:
    path = str(tmp_path / "no such folder" / "out")
    with pytest.raises(FileNotFoundError) as caught, replacing(path):
        pass
    assert caught.value.filename == path


def test_a_write_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(OSError), replacing(path):
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == ["out"] and path.read_bytes() == b"old"


def test_concurrent_writers_all_succeed(tmp_path: Path) -> None:
    path, started = tmp_path / "out", Barrier(3)

    def write(content: bytes) -> None:
        with replacing(path) as file:
            started.wait(60)
            file.write(content)

    contents = [digit * 100_000 for digit in (b"1", b"2", b"3")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(write, contents))
    assert names(tmp_path) == ["out"] and path.read_bytes() in contents


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", tmp_path / "pipe", tmp_path):
        with pytest.raises(OSError) as caught, replacing(path):
            pass
        assert caught.value.filename == str(path)
    assert os.path.exists("/dev/null") and names(tmp_path) == ["pipe"]


def test_permissions_are_those_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    with replacing(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_long_name(tmp_path: Path) -> None:
    with replacing(tmp_path / ("x" * 255)) as file:
        file.write(b"new")
    assert names(tmp_path) == ["x" * 255]
