# SPDX-License-Identifier: Apache-2.0
"""Extracts a CPython with its own libc out of Debian's packages, to run anywhere on an older host.

Usage: debian_interpreter.py VERSION FOLDER PACKAGE...

FOLDER/bin/python3 is a script that names the loader in FOLDER/lib and its libraries relative to its real
path: so the files are the same wherever they are, and programs that Python starts use the host's libraries.
It also starts without a PATH, as tools of backends do.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from package import extract

from copy_interpreter import LEFT_OUT

# Libraries that the executable, extension modules, and wheels of manylinux_2_28 load.
_LIBRARIES: Final = (
    r"lib(?:bz2|c|crypto|dl|expat|ffi|gcc_s|lzma|m|mvec|pthread|rt|sqlite3|ssl|stdc\+\+|util|uuid|z|zstd)"
)
_LAUNCHER: Final = """\
#!/bin/sh
here=$(PATH=$PATH:/usr/bin:/bin readlink -f "$0")
here=${{here%/bin/python3}}
exec "$here/lib/{loader}" --library-path "$here/lib" --argv0 "$here/bin/python3" "$here/lib/python3" "$@"
"""


def place(name: str, version: str) -> str | None:
    """Returns the path of a package's file in the folder; None for one that is not needed."""
    if name == f"usr/bin/python{version}":
        return "lib/python3"
    if found := re.fullmatch(rf"(?:usr/)?lib/[^/]+/(ld-linux-.*|{_LIBRARIES}\.so\.[0-9.]+)", name):
        return f"lib/{found[1]}"
    library = f"usr/lib/python{version}/"
    if not name.startswith(library):
        return None
    parts = name.removeprefix(library).split("/")
    return None if LEFT_OUT.intersection(parts) else "/".join(["lib", f"python{version}", *parts])


def write_launcher(folder: Path) -> None:
    """Writes `bin/python3`."""
    (loader,) = (path.name for path in folder.glob("lib/ld-linux-*"))
    launcher = folder / "bin" / "python3"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.format(loader=loader))
    launcher.chmod(0o755)


def main() -> None:
    version, folder, *packages = sys.argv[1:]
    for package in packages:
        extract(Path(package), Path(folder), lambda name: place(name, version))
    write_launcher(Path(folder))


if __name__ == "__main__":
    main()
