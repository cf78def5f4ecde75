# SPDX-License-Identifier: Apache-2.0
"""Reads rows of the table of Python, torch and platforms, `rows.json`, and names their platform to pip.

The host's Python runs it, before the build's wheels exist.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).parent / "rows.json"


@dataclass(frozen=True)
class Row:
    """A version of Python, a version of torch and a platform, with the locks for them.

    Attributes:
        python: such as "3.11".
        torch: such as "2.13.0", without a local part.
        platform: a name of the table, such as "linux_x86_64".
        wheels: the platform's tags of wheels, best first.
        markers: what environment markers of requirements compare.
    """

    python: str
    torch: str
    platform: str
    wheels: tuple[str, ...]
    markers: Mapping[str, str]

    @property
    def name(self) -> str:
        """How a workspace names the row."""
        return f"{self.python}-{self.torch}-{self.platform}"

    def pip_options(self) -> list[str]:
        """Returns the options with which pip takes the wheels of the row."""
        platforms = [f"--platform={tag}" for tag in self.wheels]
        return [*platforms, f"--python-version={self.python}", "--implementation=cp", "--only-binary=:all:"]


# Names that the platforms of wheels had before they were numbered by glibc.
_NAMES: Final = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


def _older(tag: str) -> Iterator[str]:
    """Yields a platform of wheels, and the older ones of Linux. Pip itself knows those of macOS."""
    found = re.fullmatch(r"manylinux_2_(\d+)_(\w+)", tag)
    if not found:
        yield tag
        return
    for minor in range(int(found[1]), min(_NAMES) - 1, -1):
        yield f"manylinux_2_{minor}_{found[2]}"
        if minor in _NAMES:
            yield f"{_NAMES[minor]}_{found[2]}"


def row_of(entry: Mapping[str, Any], target: Mapping[str, Any]) -> Row:
    """Returns the row of an entry in the table and the entry of its platform."""
    here = platform.python_version()
    markers = {
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "python_full_version": here if here.startswith(f"{entry['python']}.") else f"{entry['python']}.0",
        "python_version": entry["python"],
        **target["markers"],
    }
    return Row(entry["python"], entry["torch"], entry["platform"], tuple(_older(target["wheels"])), markers)


def first_row() -> Row:
    """Returns the first row of our table, whose locks are next to it."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    first = table["rows"][0]
    return row_of(first, table["platforms"][first["platform"]])


def chosen_row(path: Path) -> Row:
    """Returns the row that a workspace builds with, of @delegatec_row's `row.json`."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return row_of(content["row"], content["platform"])
