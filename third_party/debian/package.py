# SPDX-License-Identifier: Apache-2.0
"""Reads Debian's packages: an archive of `ar`, which contains the files in an archive of `tar`."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60


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


def entries(package: Path) -> Iterator[tuple[tarfile.TarInfo, Callable[[], bytes]]]:
    """Yields each entry of a package, and a function that returns its contents; names lack "./"."""
    (data,) = (data for name, data in members(package.read_bytes()) if name.startswith("data.tar"))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            read = partial(_contents, archive, entry)
            entry.name = entry.name.removeprefix("./")
            yield entry, read


def extract(package: Path, folder: Path, place: Callable[[str], str | None]) -> None:
    """Writes files of a package, as executables; a link leads to the file in its own directory.

    Args:
        package: the package.
        folder: an existing directory.
        place: returns the path in the folder of a name, or None for one that is left out.
    """
    for entry, read in entries(package):
        path = place(entry.name)
        if path is None or not (entry.issym() or entry.isfile()):
            continue
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.issym():
            target.symlink_to(Path(entry.linkname).name)
        else:
            target.write_bytes(read())
            target.chmod(0o755)


def _contents(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    contents = archive.extractfile(entry)
    assert contents is not None, entry.name
    return contents.read()
