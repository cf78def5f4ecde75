# SPDX-License-Identifier: Apache-2.0
"""The benchmark on its smallest model, without assertions on time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import compare
import models
import pytest
from plot import plot
from tables import Trials, ratio, tables
from trial import Outcome


@pytest.fixture(scope="module")
def results() -> Trials:
    """Returns the outcomes of both tools for the small model, each in a separate process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "MODELS", {"small": models.small})
        found: Trials = {}
        for name, backend, tool, outcome in compare.trials(["small"], ["mps fp16"], rounds=1):
            found.setdefault((name, backend), {})[tool] = outcome
    return found


def test_both_tools_lower(results: Trials) -> None:
    (pair,) = results.values()
    assert list(pair) == ["peer", "ours"]
    for outcome in pair.values():
        assert outcome.error == ""
        assert outcome.delegates >= 1 and outcome.weights > 0 and outcome.file > 0
        assert outcome.planned >= outcome.live > 0
    stages = ["read", "to_edge", "to_backend", "emit, plan", "write"]
    assert list(pair["ours"].seconds) == stages
    factor = ratio(pair)
    assert factor is not None and factor > 0


def test_the_tables_have_a_row_for_each(results: Trials) -> None:
    text = tables(results)
    assert text.count("| small | mps fp16 |") == 5
    widths = {block: {line.count("|") for line in block.splitlines()} for block in text.split("\n\n")[1::2]}
    assert len(widths) == 4 and all(len(counts) == 1 for counts in widths.values())


def test_the_plot_has_a_bar_for_each(results: Trials) -> None:
    root = ElementTree.fromstring(plot(results))
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if bar.get("height") == "12"]
    assert len(bars) == 2 + 2 * 2  # the legend's, and those of two panels


def test_a_failure_is_a_row_and_no_ratio(results: Trials) -> None:
    ((key, pair),) = results.items()
    failed = {key: {**pair, "peer": Outcome(error="ValueError: no")}}
    assert ratio(failed[key]) is None
    assert "| small | mps fp16 | ValueError: no |" in tables(failed)
    assert plot(failed).count(">fails<") == 2


def test_the_page_keeps_text_around_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "benchmarks.md"
    page.write_text("before\n<!-- tables -->\nold\n<!-- end of tables -->\nafter\n")
    compare.write("new", "<svg/>")
    assert page.read_text() == "before\n<!-- tables -->\n\nnew\n<!-- end of tables -->\nafter\n"
    assert (tmp_path / "docs" / "benchmarks.svg").read_text() == "<svg/>"
