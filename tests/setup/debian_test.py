# SPDX-License-Identifier: Apache-2.0
"""The extraction of Debian's packages."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest

_THIRD_PARTY = Path(__file__).parents[2] / "third_party"
sys.path[:0] = [str(_THIRD_PARTY / name) for name in ("aarch64", "debian")]

import extract as aarch64  # noqa: E402
import package as debian  # noqa: E402

_LIBRARIES = "usr/lib/x86_64-linux-gnu"


def _package(path: Path, files: dict[str, bytes], links: dict[str, str]) -> Path:
    """Writes a package as Debian's tools do."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for name, contents in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(contents)
            archive.addfile(entry, io.BytesIO(contents))
        for name, target in links.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    text = b"!<arch>\n"
    for name, contents in (("debian-binary", b"2.0"), ("data.tar.xz", data.getvalue())):
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(contents):<10}`\n"
        text += header.encode() + contents + b"\n" * (len(contents) % 2)
    path.write_bytes(text)
    return path


def test_extraction(tmp_path: Path) -> None:
    files = {f"{_LIBRARIES}/libz.so.1.2": b"library", "usr/bin/qemu-aarch64": b"emulator", "usr/bin/as": b""}
    path = _package(tmp_path / "p.deb", files, {f"{_LIBRARIES}/libz.so.1": f"/{_LIBRARIES}/libz.so.1.2"})
    folder = tmp_path / "folder"
    debian.extract(path, folder, aarch64.place)
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}
    assert found == {"host/libz.so.1", "host/libz.so.1.2", "emulator/qemu-aarch64"}
    assert (folder / "host/libz.so.1").readlink() == Path("libz.so.1.2")
    assert (folder / "host/libz.so.1").read_bytes() == b"library"
    assert (folder / "emulator/qemu-aarch64").stat().st_mode & 0o111


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("usr/lib/gcc-cross/aarch64-linux-gnu/12/cc1plus", "host/cc1plus"),
        ("usr/bin/aarch64-linux-gnu-ld.bfd", "host/ld"),
        ("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "host/ld-linux-x86-64.so.2"),
        (f"{_LIBRARIES}/gconv/UTF-7.so", None),
        ("usr/aarch64-linux-gnu/include/c++/12/vector", "include/c++/vector"),
        ("usr/aarch64-linux-gnu/include/linux/errno.h", "include/c/linux/errno.h"),
        ("usr/aarch64-linux-gnu/include/linux/usb/ch9.h", None),
        ("usr/aarch64-linux-gnu/lib/libstdc++.so.6", "lib/libstdc++.so.6"),
        ("usr/aarch64-linux-gnu/lib/libc.so", None),
    ],
)
def test_places(name: str, place: str | None) -> None:
    assert aarch64.place(name) == place


def test_no_package(tmp_path: Path) -> None:
    (tmp_path / "p.deb").write_bytes(b"<html>")
    with pytest.raises(ValueError, match="not an archive of ar"):
        debian.extract(tmp_path / "p.deb", tmp_path, aarch64.place)
