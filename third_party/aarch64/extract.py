# SPDX-License-Identifier: Apache-2.0
"""Extracts a C++ compiler for aarch64, its libc, and an emulator out of Debian's packages.

Usage: extract.py FOLDER PACKAGE...

FOLDER/host has the compiler, the assembler and the linker for x86-64 with their libraries and libc,
FOLDER/include the headers, FOLDER/lib what programs are linked with, and FOLDER/emulator the emulator.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from package import extract

_GCC: Final = r"usr/lib/gcc-cross/aarch64-linux-gnu/12"
_TARGET: Final = r"usr/aarch64-linux-gnu"

# Name in a package -> path in the folder. A name has the first that matches.
_PLACES: Final = (
    (rf"{_GCC}/cc1plus", "host/cc1plus"),
    (r"usr/bin/aarch64-linux-gnu-as", "host/as"),
    (r"usr/bin/aarch64-linux-gnu-ld\.bfd", "host/ld"),
    (r"(?:usr/)?lib/x86_64-linux-gnu/([^/]+\.so[^/]*)", r"host/\1"),
    (rf"{_GCC}/include/(.*)", r"include/gcc/\1"),
    (rf"{_TARGET}/include/c\+\+/12/(.*)", r"include/c++/\1"),
    # Not the interfaces of drivers.
    (rf"{_TARGET}/include/(?!(?:drm|misc|mtd|rdma|scsi|sound|video|xen|linux/[^/]+)/)(.*)", r"include/c/\1"),
    (rf"{_GCC}/(crt(?:begin|end)S\.o|libgcc\.a)", r"lib/\1"),
    (rf"{_TARGET}/lib/(Scrt1\.o|crt[in]\.o|libc_nonshared\.a|ld-linux-aarch64\.so\.1)", r"lib/\1"),
    (rf"{_TARGET}/lib/(lib(?:c|dl|gcc_s|m|pthread|stdc\+\+)\.so\.[0-9.]+)", r"lib/\1"),
    (r"usr/bin/(qemu-aarch64)", r"emulator/\1"),
)


def place(name: str) -> str | None:
    """Returns the path of a file in the folder; None for one that is not needed."""
    found = ((re.fullmatch(pattern, name), path) for pattern, path in _PLACES)
    return next((match.expand(path) for match, path in found if match), None)


def main() -> None:
    folder, *packages = map(Path, sys.argv[1:])
    for package in packages:
        extract(package, folder, place)


if __name__ == "__main__":
    main()
