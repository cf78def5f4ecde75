# SPDX-License-Identifier: Apache-2.0
"""The code of the pages about Python runs, in order, and prints what the pages show."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import delegatec

HERE = Path(__file__).parent
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _steps(page: str) -> Iterator[tuple[str, str, int]]:
    """Yields each block of Python, with what it prints, and its line."""
    text = (HERE / page).read_text(encoding="utf-8")
    blocks = [*_FENCE.finditer(text)]
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] == "python":
            printed = following[2] if following is not None and following[1] == "text" else ""
            yield block[2], printed, text.count("\n", 0, block.start()) + 1


@pytest.mark.parametrize("page", ["python.md", "tutorial.md"])
def test_the_code_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = [*_steps(page)]
    assert len(steps) > 5
    namespace: dict[str, Any] = {"__name__": "page"}
    for code, expected, line in steps:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(HERE / page), "exec"), namespace)
        assert printed.getvalue() == expected, f"{page}:{line}"


def test_every_public_name_is_on_the_page() -> None:
    page = (HERE / "python.md").read_text(encoding="utf-8")
    table = page[page.index("## All names") :]
    listed = {*re.findall(r"`([A-Za-z_]+)", table)} | {*re.findall(r"-> ([A-Z]\w+)`", table)}
    assert {*delegatec.__all__} <= listed


def test_signatures_on_the_page_are_those_of_the_code() -> None:
    """Names of arguments in the table, in their order; the last ones may be `...`."""
    table = (HERE / "python.md").read_text(encoding="utf-8").partition("## All names")[2]
    found = re.findall(r"^\| `(\w+(?:\.\w+)?)\(([^)]*)\)", table, re.MULTILINE)
    assert len(found) > 8
    for name, arguments in found:
        target: Any = delegatec
        for part in name.split("."):
            target = getattr(target, part)
        known = [each for each in inspect.signature(target).parameters if each != "self"]
        given = [each.partition("=")[0] for each in arguments.split(", ") if each != "..."]
        assert given == known[: len(given)], name
