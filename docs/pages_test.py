# SPDX-License-Identifier: Apache-2.0
"""The generated pages are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from errors_page import BLOCKS, example
from pages import OF_BACKENDS, PAGES, operators_aten_page, operators_portable_page

from delegatec.diagnostics import CODES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    committed = (Path(__file__).parent / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), f"docs/{name} is out of date: bazel run //docs:generate"


@pytest.mark.parametrize("name", OF_BACKENDS)
def test_the_legend_explains_each_name_once(name: str) -> None:
    rows, legend = OF_BACKENDS[name]().split("\n## Legend\n")
    explained = re.findall(r"^\| `([a-z-]+:[^`]+)` \|", legend, re.MULTILINE)
    assert sorted(explained) == sorted({*re.findall(r"`([a-z-]+:[^`]+)`", rows)})


def test_every_code_belongs_to_a_block() -> None:
    assert {code[:3] for code in CODES} <= BLOCKS.keys()


def test_the_example_of_a_code_says_the_most_about_one_problem() -> None:
    short, full = "error DC101: no", "error DC101: no\n  at net.py:1\n  expected: a\n  help: b"
    messages = [
        ("several", f"{full}\n{full}\n  node: c"),
        ("In BUILD files: other", f"{full}\n  node: c"),
        ("another code", f"{full}\n  node: c".replace("DC101", "DC102")),
        ("short", short),
        ("full", full),
        ("as full", full),
    ]
    assert example("DC101", messages) == [("full", full)]
    assert example("DC101", messages[1:2]) == messages[1:2]
    assert example("DC103", messages) == []


def test_errors_page_has_one_example_of_each_code() -> None:
    sections = re.split(r"^### (DC\d{3})$", PAGES["errors.md"](), flags=re.MULTILINE)[1:]
    examples = {
        code: re.findall(r"^```\n# (?:.*)\n(?:.*\n)*?.*error (DC\d{3})", text, re.MULTILINE)
        for code, text in zip(sections[::2], sections[1::2], strict=True)
    }
    assert examples.keys() == CODES.keys()
    assert {code for code, found in examples.items() if found not in ([], [code])} == set()
    assert sum(found != [] for found in examples.values()) >= 74


def test_portable_page_names_the_kernels_of_a_known_pair() -> None:
    assert "| `aten.addmm.default` | `aten::addmm.out` |" in operators_portable_page()
    assert "aten.sort" not in operators_portable_page()  # core ATen, but without a kernel


def test_aten_page_has_every_way() -> None:
    page = operators_aten_page()
    assert "| `aten.addmm.default` | kernel `aten::addmm.out` |" in page
    assert "| `aten.sort.stable` | decomposed |" in page
    assert "| `aten.col2im.default` | decomposed by torch |" in page
    assert "| `aten.linalg_qr` |" in page.partition("## Unsupported")[2]
