# SPDX-License-Identifier: Apache-2.0
"""The comparison for Ethos-U on the smallest models."""

from __future__ import annotations

from pathlib import Path

import page
import pytest
from ethos_u import Results, ethos_u_table, trials
from ethos_u_trial import Outcome


@pytest.fixture(scope="module")
def results() -> Results:
    return trials(["4 padded convolutions"], ["ethos-u85-256"])


def test_both_tools_lower(results: Results) -> None:
    (pair,) = results.values()
    for outcome in pair.values():
        assert (outcome.error, outcome.delegates) == ("", 1)
        assert outcome.seconds > 0 and outcome.totals["operators"] > 2
    ours, peer = (pair[tool].totals for tool in ("ours", "peer"))
    assert ours["cycles"] <= peer["cycles"] and ours["sram_bytes"] <= peer["sram_bytes"]


def test_the_table_has_the_ratio_of_cycles() -> None:
    def outcome(cycles: int) -> Outcome:
        totals = {"cycles": cycles, "operators": 9, "sram_bytes": 2048, "dram_bytes": 0}
        return Outcome("", "ethos-u85-256", 1, totals, 1.5)

    failed = {"peer": Outcome("ValueError: no", "ethos-u55-128"), "ours": outcome(20)}
    found = {
        ("a", "ethos-u85-256"): {"peer": outcome(4000), "ours": outcome(1000)},
        ("b", "ethos-u55-128"): failed,
    }
    lines = ethos_u_table(found).splitlines()
    assert "| a | U85-256 | ours | 1 | 1,000 (4.00 x) | 9 | 2 | 0 | 1.50 |" in lines
    assert "| b | U55-128 | peer | fails: ValueError |  |  |  |  |  |" in lines
    assert "| b | U55-128 | ours | 1 | 20 | 9 | 2 | 0 | 1.50 |" in lines
    assert len({line.count("|") for line in lines}) == 1


def test_the_page_has_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parent.parent / "docs" / "benchmarks.md").read_text()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "benchmarks.md").write_text(text)
    page.write("ethos_u", "new")
    written = (tmp_path / "docs" / "benchmarks.md").read_text()
    assert "<!-- ethos_u -->\n\nnew\n<!-- end of ethos_u -->\n" in written
