# SPDX-License-Identifier: Apache-2.0
"""The text of diagnostics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from delegatec import diagnostics
from delegatec.diagnostics import CODES, DelegatecError, Diagnostic, SourceLocation, render

WHERE = SourceLocation("models/net.py", 12, "forward", "return torch.sort(x)", "site-packages/lib/layer.py:7")


def test_every_line_that_is_known_is_shown() -> None:
    diagnostic = Diagnostic("DC201", "no kernel", WHERE, "sort", "topk", "write it with topk")
    assert render([diagnostic], "//models:net") == (
        "//models:net: error DC201: no kernel\n"
        "  at models/net.py:12 in forward: return torch.sort(x)\n"
        "  in site-packages/lib/layer.py:7\n"
        "  node: sort\n"
        "  expected: topk\n"
        "  help: write it with topk"
    )


def test_nodes_with_the_same_problem_are_counted() -> None:
    problems = [Diagnostic("DC201", "no kernel", node=node) for node in ("sort", "sort_1", "sort_2")]
    assert render(problems[:2]) == "error DC201: no kernel\n  node: sort, and 1 other"
    assert render(problems) == "error DC201: no kernel\n  node: sort, and 2 others"


def test_nothing_that_is_unknown_is_shown() -> None:
    location = SourceLocation("net.py", 1)
    assert render([Diagnostic("DC201", "no kernel")]) == "error DC201: no kernel"
    assert render([Diagnostic("DC201", "no kernel", location)]) == "error DC201: no kernel\n  at net.py:1"


def test_an_error_carries_all_problems_and_shows_equal_ones_once() -> None:
    problems = [Diagnostic("DC201", "a"), Diagnostic("DC202", "b"), Diagnostic("DC201", "a")]
    error = DelegatecError(problems)
    assert error.diagnostics == tuple(problems)
    assert str(error) == "error DC201: a\nerror DC202: b"


def test_unknown_codes_and_empty_errors_are_mistakes_of_ours() -> None:
    with pytest.raises(AssertionError, match="DC999"):
        Diagnostic("DC999", "no such code")
    with pytest.raises(AssertionError):
        DelegatecError([])


def test_codes_are_sorted_and_of_one_form() -> None:
    assert list(CODES) == sorted(CODES)
    assert all(re.fullmatch(r"DC[0-5]\d\d", code) and text.endswith(".") for code, text in CODES.items())


def test_it_is_a_leaf() -> None:
    sources = [path.read_text() for path in Path(diagnostics.__file__).parent.glob("*.py")]
    imported = {
        name for text in sources for name in re.findall(r"^from (delegatec[.\w]*)", text, re.MULTILINE)
    }
    assert all(name.startswith("delegatec.diagnostics") or name == "delegatec" for name in imported)
