# SPDX-License-Identifier: Apache-2.0
"""Compiles the Python files in directories and lists the SHA-256 of every file in them.

Usage: compile_tree.py FOLDER... MANIFEST

The `.pyc` files are the same whenever and wherever they are made: they carry a hash of their source instead
of its time, and the source's path relative to the current folder. So two fetches of a repository are equal,
and a remote cache serves both. The manifest leaves them out, as they follow from what it lists.
"""

from __future__ import annotations

import compileall
import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from py_compile import PycInvalidationMode


def compile_folder(folder: str) -> None:
    """Compiles all modules in a directory; skips files that are not valid Python, such as templates."""
    compileall.compile_dir(
        folder,
        maxlevels=100,
        force=True,
        quiet=2,
        workers=0,
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def digest_line(path: Path) -> str:
    """Returns one line of the manifest: digest and path."""
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()} {path.as_posix()}\n"


def write_manifest(folders: list[str], manifest: str) -> None:
    """Lists every file in the directories except the compiled ones, sorted by path."""
    paths = sorted(
        path
        for folder in folders
        for path in Path(folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    )
    with ThreadPoolExecutor() as pool:
        Path(manifest).write_text("".join(pool.map(digest_line, paths)))


def main() -> None:
    *folders, manifest = sys.argv[1:]
    for folder in folders:
        compile_folder(folder)
    write_manifest(folders, manifest)


if __name__ == "__main__":
    main()
