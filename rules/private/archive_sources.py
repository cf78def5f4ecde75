# SPDX-License-Identifier: Apache-2.0
"""Writes Python sources and their bytecode to an uncompressed zip file, from which Python imports them.

Usage: archive_sources.py OUTPUT [--root=DIRECTORY...] FILE...

A name in the archive is relative to the first root that contains the file. The bytes follow from names and
contents: bytecode has a hash of its source instead of its time.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from py_compile import PycInvalidationMode, compile


def archive(output: Path, files: Sequence[Path], roots: Sequence[str]) -> None:
    """Writes the archive.

    Args:
        output: its path.
        files: sources, and other files of their packages.
        roots: directories on the import path.
    """
    names = {_name(file, roots): file for file in files}
    # Without an entry for the directory, Python 3.11 does not find a package that has no `__init__.py`.
    folders = {f"{parent}/" for name in names for parent in PurePath(name).parents if parent != PurePath()}
    with zipfile.ZipFile(output, "w") as opened:
        for folder in sorted(folders):
            opened.writestr(zipfile.ZipInfo(folder), b"")
        for name, file in sorted(names.items()):
            for entry, content in _entries(name, file):
                opened.writestr(zipfile.ZipInfo(entry), content)


def _name(file: Path, roots: Sequence[str]) -> str:
    for root in roots:
        if file.is_relative_to(root):
            return file.relative_to(root).as_posix()
    raise SystemExit(f"{file} is not in {', '.join(roots)}")


def _entries(name: str, file: Path) -> Iterator[tuple[str, bytes]]:
    yield name, file.read_bytes()
    if file.suffix == ".py":
        # The compiler tells its own frames from those of a model by the bracket.
        source = f"<archive>/{name}"
        with tempfile.TemporaryDirectory() as folder:
            compiled = str(Path(folder, "module.pyc"))
            compile(
                file, compiled, source, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
            )
            yield f"{name}c", Path(compiled).read_bytes()


def main() -> None:
    """Writes an archive as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument("output", type=Path)
    parser.add_argument("--root", action="append", default=[])
    parser.add_argument("files", nargs="+", type=Path)
    flags = parser.parse_args()
    archive(flags.output, flags.files, flags.root)


if __name__ == "__main__":
    main()
