# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from delegatec.report.provenance import InputDigests, InputFile, Wheel, wheels_on
from wheel_locks import INSTALLED_LOCK


def _site(folder: Path, *wheels: str, lock: str = "") -> str:
    for wheel in wheels:
        (folder / f"{wheel}.dist-info").mkdir(parents=True)
    if lock:
        (folder / INSTALLED_LOCK).write_text(lock)
    return str(folder)


def test_digests_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.pt2").write_bytes(b"program" * 100_000)
    (tmp_path / "b.ini").write_bytes(b"")
    files = InputDigests({"program": f"{tmp_path}/a.pt2", "config": f"{tmp_path}/b.ini"}).files()
    assert files == [
        InputFile("program", "a.pt2", 700_000, hashlib.sha256(b"program" * 100_000).hexdigest()),
        InputFile("config", "b.ini", 0, hashlib.sha256(b"").hexdigest()),
    ]


def test_a_file_that_disappears(tmp_path: Path) -> None:
    digests = InputDigests({"program": f"{tmp_path}/a.pt2"})
    with pytest.raises(FileNotFoundError):
        digests.files()


def test_wheels_of_several_directories(tmp_path: Path) -> None:
    one, two = "1" * 64, "2" * 64
    lock = f"torch==2.13.0+cpu --hash=sha256:{one}\nSome.Name==1.0 --hash=sha256:{one} --hash=sha256:{two}\n"
    first = _site(tmp_path / "first", "torch-2.13.0+cpu", "Some_Name-1.0", lock=lock)
    second = _site(tmp_path / "second", "torch-1.0", "zeta-0.1")
    assert wheels_on([first, second, str(tmp_path / "absent")]) == [
        Wheel("some-name", "1.0", ""),
        Wheel("torch", "2.13.0+cpu", one),
        Wheel("zeta", "0.1", ""),
    ]
