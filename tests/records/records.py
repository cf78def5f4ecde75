# SPDX-License-Identifier: Apache-2.0
"""A record is a JSON file of rows next to the test that repeats it.

A program that measures writes the record, a summary into a page of docs/, and, to a file that the user names,
a page with all rows.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", Path(__file__).parents[2]))
"""The source tree."""

Row = tuple[str, ...]


def read(path: Path) -> dict[str, dict[str, Row]]:
    """Returns the tables of a record: name of the table -> first cell -> the other cells."""
    tables = json.loads(path.read_text(encoding="utf-8"))
    return {name: {key: tuple(cells) for key, cells in rows.items()} for name, rows in tables.items()}


def text_of(tables: Mapping[str, Mapping[str, Row]]) -> str:
    """Returns the contents of a record: one line per row, sorted."""
    parts = []
    for name, rows in tables.items():
        lines = (
            f"  {json.dumps(key)}: {json.dumps(cells, ensure_ascii=False)}"
            for key, cells in sorted(rows.items())
        )
        parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def section(page: Path, name: str) -> str:
    """Returns the text between `<!-- NAME -->` and `<!-- end of NAME -->`."""
    return _split(page, name)[1]


def write_section(page: Path, name: str, text: str) -> None:
    """Replaces the text between `<!-- NAME -->` and `<!-- end of NAME -->`."""
    before, _, after = _split(page, name)
    page.write_text(f"{before}\n{text}\n\n{after}", encoding="utf-8")


def _split(page: Path, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    text, closed, after = rest.partition(end)
    assert found and closed, f"{page} has no section {name!r}"
    return before + begin, text.strip("\n"), end + after


def parser(description: str) -> argparse.ArgumentParser:
    """Returns a parser of the flags of programs that write a page."""
    flags = argparse.ArgumentParser(description=description)
    flags.add_argument("--page", type=Path, help="write a page with all rows to this file")
    flags.add_argument("--recorded", action="store_true", help="do not measure: take the rows of the record")
    return flags
