# SPDX-License-Identifier: Apache-2.0
"""Copies the CPython that runs this script, less what a build never needs, into a folder that can be moved.

Usage: copy_interpreter.py DESTINATION
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

# The libraries' own tests, editors and graphics, and what belongs to the host: its installed packages and
# its hooks. The `config-*` folder is for who links the interpreter into a program.
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
    """What `shutil.copytree` shall ignore among the names of one folder."""
    return [name for name in names if name in LEFT_OUT or name.startswith("config-")]


def copy_standard_library(destination: Path) -> None:
    """Copies the standard library to `lib/python3.11`."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copytree(
        sysconfig.get_path("stdlib"),
        destination / "lib" / name,
        ignore=left_out,
        ignore_dangling_symlinks=True,
    )


def copy_executable(destination: Path) -> None:
    """Copies the executable to `bin/python3`, and the library that it is linked to, where there is one."""
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
    """Rewrites the run path in place: `$ORIGIN/../lib` fits wherever the old absolute path is longer."""
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
