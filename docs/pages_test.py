# SPDX-License-Identifier: Apache-2.0
"""The generated pages are up to date."""

from __future__ import annotations

from pathlib import Path

import pytest
from errors_page import BLOCKS
from pages import PAGES, operators_aten_page, operators_portable_page

from delegatec.diagnostics import CODES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_up_to_date(name: str) -> None:
    committed = (Path(__file__).parent / name).read_text(encoding="utf-8")
    assert committed == PAGES[name](), f"docs/{name} is out of date: bazel run //docs:generate"


def test_every_code_belongs_to_a_block() -> None:
    assert {code[:3] for code in CODES} <= BLOCKS.keys()


def test_portable_page_names_the_kernels_of_a_known_pair() -> None:
    assert "| `aten.addmm.default` | `aten::addmm.out` |" in operators_portable_page()
    assert "aten.sort" not in operators_portable_page()  # core ATen, but without a kernel


def test_aten_page_has_every_way() -> None:
    page = operators_aten_page()
    assert "| `aten.addmm.default` | kernel `aten::addmm.out` |" in page
    assert "| `aten.sort.stable` | decomposed |" in page
    assert "| `aten.col2im.default` | decomposed by torch |" in page
    assert "| `aten.linalg_qr` |" in page.partition("## Unsupported")[2]
