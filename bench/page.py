# SPDX-License-Identifier: Apache-2.0
"""Children that measure, and the page that their results are written to."""

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
    """Runs a script of this folder in a process of its own; returns the last line that it prints."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, arguments)]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return lines[-1] if lines else ""


def machine(versions: Iterable[str]) -> str:
    """What was measured on which machine, in one line."""
    parts = [*sorted(set(versions)), f"Python {platform.python_version()}", f"{os.cpu_count()} cores"]
    return ", ".join(parts)


def root() -> Path:
    """The source tree."""
    return Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))


def write(section: str, text: str) -> None:
    """Replaces what stands between `<!-- SECTION -->` and `<!-- end of SECTION -->` of the page."""
    begin, end = f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"
    path = root() / _PAGE
    before, found, rest = path.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    assert found and closed, f"{_PAGE} has no section {section!r}"
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}")
