# SPDX-License-Identifier: Apache-2.0
"""Lets extracted programs run from a directory with its own libc, on a host with an older one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from debian_packages import UnavailableError

_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_LOADER: Final = f"{_LIBRARIES}/ld-linux-x86-64.so.2"


def relink(root: Path) -> None:
    """Turns absolute links between the extracted files into links below their directory."""
    for link in root.rglob("*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute():
            inside = root / str(target).lstrip("/")
            if inside.exists() or inside.is_symlink():
                link.unlink()
                link.symlink_to(inside)


def relocate(root: Path, programs: Iterable[Path], libraries: Iterable[Path] = ()) -> None:
    """Writes the paths of the extracted loader and libraries into programs.

    Args:
        root: absolute path of the directory.
        programs: ELF executables.
        libraries: shared libraries without a search path.

    Raises:
        UnavailableError: one of them cannot be written.
    """
    for program in programs:
        _patch(root, program, ["--set-interpreter", str(root / _LOADER)])
    for library in libraries:
        _patch(root, library, [])


def _patch(root: Path, file: Path, options: list[str]) -> None:
    known = _patchelf(root, ["--print-rpath", str(file)]).strip()
    search = ":".join(filter(None, [known, str(root / _LIBRARIES)]))
    _patchelf(root, [*options, "--force-rpath", "--set-rpath", search, str(file)])


def _patchelf(root: Path, arguments: list[str]) -> str:
    """Runs the extracted patchelf, which needs the extracted loader itself."""
    loader = [str(root / _LOADER), "--library-path", str(root / _LIBRARIES), str(root / "usr/bin/patchelf")]
    done = subprocess.run([*loader, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(
            f"patchelf {' '.join(arguments)} fails: {(done.stderr or done.stdout).strip()}"
        )
    return done.stdout
