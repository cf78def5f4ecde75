# SPDX-License-Identifier: Apache-2.0
"""Makes a relocatable copy of the CPython that runs this script, without the parts that builds do not need.

Usage: copy_interpreter.py DESTINATION
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

# Tests, editors and graphics of the standard library, installed packages and hooks of the host, and the
# `config-*` directory, which is for programs that embed the interpreter.
LEFT_OUT = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "sitecustomize.py",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
    }
)


def left_out(_: str, names: list[str]) -> list[str]:
    """Returns the names in one directory that `shutil.copytree` ignores."""
    return [name for name in names if name in LEFT_OUT or name.startswith("config-")]


def copy_standard_library(destination: Path) -> None:
    """Copies the standard library to `lib/pythonX.Y`."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        destination / "lib" / name,
        ignore=left_out,
        ignore_dangling_symlinks=True,
    )


def copy_executable(destination: Path) -> None:
    """Copies the executable to `bin/python3`, and its shared library, if any."""
    executable = destination / "bin" / "python3"
    executable.parent.mkdir(parents=True)
    # In a virtual environment `sys.executable` is a link, and the base executable is the real one.
    base = getattr(sys, "_base_executable", sys.executable)
    shutil.copy2(Path(base).resolve(), executable)
    # Debian configures a shared library, and links the executable without it
    soname = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and needs(executable, soname):
        folder = sysconfig.get_config_var("LIBDIR")
        shutil.copy2(Path(folder) / soname, destination / "lib" / soname)
        relocate_run_path(executable, folder)


def needs(executable: Path, soname: str) -> bool:
    """Whether the dynamic loader would look for `soname`: names in an ELF file end in a zero byte."""
    return soname.encode() + b"\0" in executable.read_bytes()


def relocate_run_path(executable: Path, folder: str) -> None:
    """Rewrites the run path in place: `$ORIGIN/../lib` fits if the old absolute path is longer."""
    old, new = folder.encode() + b"\0", b"$ORIGIN/../lib"
    content = executable.read_bytes()
    if old in content and len(new) < len(old):
        executable.write_bytes(content.replace(old, new.ljust(len(old), b"\0")))


def main() -> None:
    destination = Path(sys.argv[1])
    copy_standard_library(destination)
    copy_executable(destination)


if __name__ == "__main__":
    main()
