# SPDX-License-Identifier: Apache-2.0
"""Child processes that measure, and the page with their results."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_PAGE: Final = Path("docs/benchmarks.md")


def child(script: str, *arguments: str | Path) -> str:
    """Runs a script of this directory in a separate process; returns the last line that it prints."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return lines[-1] if lines else ""


def machine(versions: Iterable[str]) -> str:
    """Returns versions and machine, in one line."""
    parts = [*sorted(set(versions)), f"Python {platform.python_version()}", f"{os.cpu_count()} cores"]
    return ", ".join(parts)


def root() -> Path:
    """Returns the source tree."""
    return Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))


def write(section: str, text: str) -> None:
    """Replaces the text between `<!-- SECTION -->` and `<!-- end of SECTION -->` in the page."""
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    path = root() / _PAGE
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    assert found and closed, f"{_PAGE} has no section {section!r}"
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")
