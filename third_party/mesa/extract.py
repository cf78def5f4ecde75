# SPDX-License-Identifier: Apache-2.0
"""Extracts the libraries of Debian's packages, and the description of Mesa's driver for CPUs.

Usage: extract.py FOLDER PACKAGE...
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

from package import extract

_LIBRARY: Final = re.compile(r"usr/lib/x86_64-linux-gnu/([^/]+\.so(?:\.[^/]*)?)\Z")
_DRIVER: Final = "libvulkan_"
_CPU: Final = "libvulkan_lvp.so"


def place(name: str) -> str | None:
    """Returns the name of a library in the one directory of all; None for other files and other drivers."""
    found = _LIBRARY.match(name)
    if found is None or (found[1].startswith(_DRIVER) and found[1] != _CPU):
        return None
    return found[1]


def main() -> None:
    folder, *packages = map(Path, sys.argv[1:])
    for package in packages:
        extract(package, folder, place)
    description = {"api_version": "1.4.305", "library_path": _CPU}
    (folder / "driver.json").write_text(json.dumps({"ICD": description, "file_format_version": "1.0.0"}))


if __name__ == "__main__":
    main()
