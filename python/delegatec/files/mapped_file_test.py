# SPDX-License-Identifier: Apache-2.0
"""Tests of mapped_file."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from delegatec.files import MappedFile

CONTENT = bytes(range(256)) * 20


def mapped(folder: Path) -> MappedFile:
    path = folder / "file"
    path.write_bytes(CONTENT)
    with path.open("rb") as file:
        return MappedFile(file)


def test_a_view_of_any_kind_is_found(tmp_path: Path) -> None:
    file = mapped(tmp_path)
    assert file.find(torch.zeros(4, dtype=torch.uint8).numpy().data) is None
    array = np.frombuffer(file.view[100:164], np.int64)
    assert file.find(array[2:].view(np.uint8).data) == 116
    assert file.find(file.view) == 0
    assert file.find(file.view[-1:]) == len(CONTENT) - 1


def test_equal_bytes_elsewhere_are_not_found(tmp_path: Path) -> None:
    file = mapped(tmp_path)
    assert file.find(CONTENT) is None
    assert file.find(file.view[:0]) is None


@pytest.mark.parametrize(("offset", "size"), [(0, 1), (1, 4096), (4095, 2), (17, len(CONTENT) - 17)])
def test_reads_equal_the_mapping(tmp_path: Path, offset: int, size: int) -> None:
    file, buffer = mapped(tmp_path), memoryview(bytearray(size))
    file.read_into(buffer, offset)
    assert buffer == file.view[offset : offset + size] == CONTENT[offset : offset + size]


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, buffer, original = mapped(tmp_path), memoryview(bytearray(1000)), os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: original(fd, [buffers[0][:7]], at))
    file.read_into(buffer, 33)
    assert buffer == CONTENT[33:1033]


def test_a_file_that_has_become_shorter_is_an_error(tmp_path: Path) -> None:
    file = mapped(tmp_path)
    os.truncate(tmp_path / "file", 4096)
    with pytest.raises(OSError, match="truncated"):
        file.read_into(memoryview(bytearray(10)), 4090)


def test_descriptors_are_closed_and_views_stay_valid(tmp_path: Path) -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    file = mapped(tmp_path)
    # one of the mapping's own, and one to read from
    assert len(os.listdir("/proc/self/fd")) == before + 2
    view = file.view[5:10]
    del file
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert view == CONTENT[5:10]
    del view
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_ends_quietly_with_a_file_mapped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    code = "import sys\nfrom delegatec.files import MappedFile\nkept = MappedFile(open(sys.argv[1], 'rb'))"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "file")],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    assert run.stderr == b""
