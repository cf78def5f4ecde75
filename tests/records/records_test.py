# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tests.records.records import read, section, table, text_of, write_section

TABLES = {"cases": {"b": ("1", "="), "a": ("", "≤ 2 | 3")}, "defects": {"c": ("x",)}}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "recorded.json"
    file.write_text(text_of(TABLES), encoding="utf-8")
    assert read(file) == TABLES
    assert text_of(read(file)) == file.read_text(encoding="utf-8")
    assert file.read_text(encoding="utf-8").splitlines()[2:4] == [
        '  "a": ["", "≤ 2 | 3"],',
        '  "b": ["1", "="]',
    ]


def test_a_section_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- counts -->\n\nold\n\n<!-- end of counts -->\nrest\n", encoding="utf-8")
    write_section(page, "counts", "new\nlines")
    assert section(page, "counts") == "new\nlines"
    assert page.read_text(encoding="utf-8").endswith("lines\n\n<!-- end of counts -->\nrest\n")
    with pytest.raises(AssertionError, match="no section 'others'"):
        section(page, "others")


def test_cells_of_tables_have_no_bars() -> None:
    assert table(("a", "b"), [("1", "x | y")]) == "| a | b |\n| --- | --- |\n| 1 | x \\| y |"
