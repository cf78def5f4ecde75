# SPDX-License-Identifier: Apache-2.0
"""The files that a remote worker must have: a shell and a few libraries, copied from this host.

docs/remote_execution.md lists them. An action of the compiler finds everything else among its inputs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FOLDERS: Final = ("bin", "lib", "lib64")

# Libraries that wheels of the platform manylinux_2_28 may expect from a host.
PLATFORM_LIBRARIES: Final = (
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libz.so.1",
)

# Libraries of the modules of CPython's standard library that torch and its dependencies import.
PYTHON_LIBRARIES: Final = ("libbz2.so.1.0", "libffi.so.8", "liblzma.so.5")

# Libraries of Python's `ssl`, which libraries of models may import, such as transformers.
NETWORK_LIBRARIES: Final = ("libcrypto.so.3", "libssl.so.3")

_LOADER: Final = "ld-linux-x86-64.so.2"
_CACHED: Final = re.compile(r"^\s*(\S+) \(libc6,x86-64\b.*\) => (\S+)$", re.MULTILINE)


def host_libraries() -> dict[str, Path]:
    """Returns the shared libraries for x86-64 that the host's loader knows: name -> file."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return {name: Path(path) for name, path in reversed(_CACHED.findall(listed))}


def libraries_of(program: Path) -> list[str]:
    """Returns the libraries of the host that a program is linked with, such as Debian's Python with expat."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s*(\S+) => /(?:usr/)?lib/", listed, re.MULTILINE)


def assemble(folder: Path, interpreter: Path, libraries: Iterable[str]) -> None:
    """Writes FOLDERS below `folder`.

    Args:
        folder: the root of the image; it does not exist yet.
        interpreter: the build's Python.
        libraries: names of libraries besides those that each worker has.
    """
    known = host_libraries()
    target = folder / "lib" / "x86_64-linux-gnu"
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    target.mkdir()
    shutil.copy(Path("/bin/sh").resolve(), folder / "bin" / "sh")
    shutil.copy(Path("/lib64", _LOADER).resolve(), folder / "lib64" / _LOADER)
    for name in {_LOADER, *PLATFORM_LIBRARIES, *PYTHON_LIBRARIES, *libraries_of(interpreter), *libraries}:
        shutil.copy(known[name].resolve(), target / name)
