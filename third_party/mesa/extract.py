# SPDX-License-Identifier: Apache-2.0
"""Extracts the libraries of Debian's packages, and the description of Mesa's driver for CPUs.

Usage: extract.py FOLDER PACKAGE...

A package is an archive of `ar`, which contains the files in an archive of `tar`.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_LIBRARY: Final = re.compile(r"(?:\./)?usr/lib/x86_64-linux-gnu/([^/]+\.so(?:\.[^/]*)?)\Z")
_DRIVER: Final = "libvulkan_"
_CPU: Final = "libvulkan_lvp.so"


def members(package: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields name and contents of each member of an `ar` archive."""
    if package[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not an archive of ar")
    at = len(_MAGIC)
    while at < len(package):
        header = package[at : at + _HEADER]
        size = int(header[48:58])
        yield header[:16].decode().strip().rstrip("/"), package[at + _HEADER : at + _HEADER + size]
        at += _HEADER + size + size % 2


def extract(package: Path, folder: Path) -> None:
    """Writes the libraries of a package into one directory; links become relative to it."""
    for name, data in members(package.read_bytes()):
        if not name.startswith("data.tar"):
            continue
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for entry in archive:
                found = _LIBRARY.match(entry.name)
                if found is None or (found[1].startswith(_DRIVER) and found[1] != _CPU):
                    continue
                target = folder / found[1]
                if entry.issym():
                    target.symlink_to(Path(entry.linkname).name)
                elif entry.isfile():
                    contents = archive.extractfile(entry)
                    assert contents is not None, entry.name
                    target.write_bytes(contents.read())
                    target.chmod(0o755)


def main() -> None:
    folder, *packages = map(Path, sys.argv[1:])
    for package in packages:
        extract(package, folder)
    description = {"api_version": "1.4.305", "library_path": _CPU}
    (folder / "driver.json").write_text(json.dumps({"ICD": description, "file_format_version": "1.0.0"}))


if __name__ == "__main__":
    main()
